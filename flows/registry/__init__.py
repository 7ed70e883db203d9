"""The model registry: registration, the gate, champions, and models pulled from it."""
