"""Characters of text, in training and in translation alike: repair, widths, and scripts without spaces between words.

- mojibake.py: repair of text whose bytes were decoded with the wrong table of characters
- widths.py: punctuation in half and in full width
- unspaced.py: letters of scripts that are written without spaces
"""
