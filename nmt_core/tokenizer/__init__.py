"""Learning the SentencePiece model, and using it."""
