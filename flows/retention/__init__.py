"""Garbage collection: the artifacts that are still needed, and the removal of the rest."""
