"""Glossaries: terms of a text, and the translations that they must have.

borders.py   where words begin and end, by script
glossary.py  terms, the places where they occur in a text, and whether a translation has them
pieces.py    pieces of the vocabulary that spell a term, for the search
reading.py   files of terms
"""
