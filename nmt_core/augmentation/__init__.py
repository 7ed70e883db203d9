"""Rough and marked copies of training pairs, so that a model learns to translate input as people write it.

draw.py       what a change receives beside the pair
changes.py    the table of all changes
letters.py    case and diacritics
keyboards.py  keys beside each other, by language
noise.py      typing errors, errors of text recognition, missing and doubled marks and spaces, on the source side
marks.py      emoji, numbers, placeholders and tags, on both sides
sentences.py  pairs that are merged, and pairs that are split
augment.py    the stage `augment`
"""
