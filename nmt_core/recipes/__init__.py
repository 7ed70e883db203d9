"""Recipes: YAML files with what differs from the defaults."""
