"""Shards of a stage on child processes or on a Dask or Ray cluster."""
