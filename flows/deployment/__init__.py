"""Prefect deployments and automations, and their installation on a server."""
