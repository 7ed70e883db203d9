"""Filters: each keeps a pair or drops it for a named reason. The first that fires gives the reason.

base.py        what a filter is, and a step of filters
form.py        one side: empty, lengths, letters, script; and the ratio of the lengths
agreement.py   both sides: copies, placeholders, tags, numbers, addresses, end marks, brackets
repetition.py  characters and words that are repeated
word_lists.py  words that the recipe's files forbid
language.py    sides in another language
outside.py     functions and scores of others
scripts.py     which script a language is written in
plan.py        all of them, step by step, over a table of pairs
"""

from nmt_core.corpus.cleaning.filters.base import Filter, Step
from nmt_core.corpus.cleaning.filters.plan import judge, knobs, steps

__all__ = ["Filter", "Step", "judge", "knobs", "steps"]
