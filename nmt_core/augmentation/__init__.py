"""Rough and marked copies of training pairs, so that a model learns to translate input as people write it.

draw.py           means of a change: random numbers, languages, and the pairs that follow
changes.py        the table of all changes
letters.py        case and diacritics
keyboards.py      keys beside each other, by language
typing_errors.py  wrong, missing, doubled and swapped letters
noise.py          typing errors, errors of text recognition, missing and doubled marks and spaces, on the source side
marks.py          emoji, numbers, placeholders and tags, on both sides
sentences.py      pairs that are merged, and pairs that are split
augment.py        the stage `augment`
"""
