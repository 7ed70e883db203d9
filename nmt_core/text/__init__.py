"""Characters of text, in training and in translation alike: repair, widths, scripts without
spaces between words, and how much two texts have in common.

- mojibake.py: repair of text whose bytes were decoded with the wrong table of characters
- widths.py: punctuation in half and in full width
- unspaced.py: letters of scripts that are written without spaces
- inline.py: placeholders, tags and addresses
- chrf.py: the character n-grams that two texts share
"""
