"""Rules and scores that decide which sentence pairs are kept."""
