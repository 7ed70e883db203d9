"""Prefect flows, MLflow tracking, registration and the command line, above the plain library `nmt_core`."""
