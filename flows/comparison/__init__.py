"""Recipes side by side: runs, tables and figures."""
