-- Prefect's database is made by the image (POSTGRES_DB); this is MLflow's.
CREATE DATABASE mlflow;
