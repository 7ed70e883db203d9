"""The models and their loss."""
