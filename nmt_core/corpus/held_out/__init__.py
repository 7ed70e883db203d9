"""Draw dev and test sentences from the text, and keep them out of training."""
