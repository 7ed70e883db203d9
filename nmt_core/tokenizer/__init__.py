"""Learn and apply SentencePiece tokenizers."""
