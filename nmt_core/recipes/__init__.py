"""Recipes: YAML files that hold the differences from the defaults."""
