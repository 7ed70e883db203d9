"""Store token ids in Parquet shards, and plan and load the batches of training."""
