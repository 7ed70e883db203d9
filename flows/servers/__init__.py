"""Prefect and MLflow servers, workers, and runs that lost their process."""
