"""Workers that process the shards of a stage: child processes, or a Dask or Ray cluster."""
