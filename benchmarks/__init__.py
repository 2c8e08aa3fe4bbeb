"""Benchmarks, run by hand: `make bench`. Each prints a table with its baseline measured in the same run."""
