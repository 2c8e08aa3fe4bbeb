"""The roof: argv to a flow, its answer to rendering, text to stdout, an exit status. One file per command."""
