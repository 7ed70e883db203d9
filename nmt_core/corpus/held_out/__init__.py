"""Development and test sentences: carved out of the text, and kept out of training."""
