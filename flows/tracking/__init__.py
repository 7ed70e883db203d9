"""MLflow runs: metrics, parameters and lineage, written in the background."""
