"""Set-up: what a clone needs to keep memory, put in and taken out."""
