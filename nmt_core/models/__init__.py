"""The Transformer and its loss."""
