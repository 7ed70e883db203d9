"""Drift: how the text that a model translates differs from the text that it was trained on, and from earlier text.

profile.py     histograms of text and of its translations, without the text; profiles of parts add up
comparison.py  population stability and two-sample tests of two profiles
training.py    the profile of the training text, in the bundle
page.py        the page with the histograms

A profile is small however large the text is. `export` stores the profile of the training text in the bundle
(`training.PROFILE_FILE`), and a translation job makes one chunk by chunk.
"""
