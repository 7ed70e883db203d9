"""Filter pairs. Each filter keeps a pair or drops it for a named reason, and the first one that fires gives the reason.

base.py        defines a filter, and a step of filters
form.py        checks a side: empty, lengths, letters, script; and the ratio of the lengths
agreement.py   compares both sides: copies, placeholders, tags, numbers, addresses, end marks, brackets
repetition.py  finds repeated characters and words
word_lists.py  finds words that the recipe's files forbid
language.py    finds sides in another language
outside.py     applies external functions, and thresholds on scores
scripts.py     lists the script of each language
plan.py        applies all filters, step by step, to a table of pairs
"""

from nmt_core.corpus.cleaning.filters.base import Filter, Step
from nmt_core.corpus.cleaning.filters.plan import judge, remedies, steps

__all__ = ["Filter", "Step", "judge", "remedies", "steps"]
