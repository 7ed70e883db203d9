"""Evaluate the exported model: scores, and the gate before production."""
