"""Comparison of recipes: runs, tables and figures."""
