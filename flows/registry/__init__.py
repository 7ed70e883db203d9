"""Model registry: registration, the gate, champions, and loading of registered models."""
