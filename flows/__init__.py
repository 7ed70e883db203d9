"""Prefect flows, MLflow tracking, model registration and the command line, on top of the library `nmt_core`."""
