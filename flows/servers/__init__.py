"""Prefect and MLflow servers, workers, and cleanup of runs whose process is gone."""
