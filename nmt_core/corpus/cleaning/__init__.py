"""Decide by rules and scores which sentence pairs are kept."""
