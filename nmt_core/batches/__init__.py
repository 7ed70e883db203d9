"""Token ids in Parquet shards, and the plan of who reads what, when."""
