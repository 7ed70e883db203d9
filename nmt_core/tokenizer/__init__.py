"""Learning SentencePiece models, and using them."""
