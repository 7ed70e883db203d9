"""Scores of the exported model."""
