"""Characters of scripts that are written without spaces between words, for `re`.

`corpus.scripts` names the same scripts for polars, whose regular expressions know them by name.
"""

import re

HAN_AND_KANA = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u303b\u3040-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
)
"""Inside of a class of `re`: radicals, Han, Kana and Bopomofo, as Chinese and Japanese text has them."""
LETTERS = (
    HAN_AND_KANA + "\ua000-\ua4cf\U00016fe0-\U00016fe3\U00017000-\U00018aff\U00018d00-\U00018dff\U0001b170-\U0001b2ff"
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\u1b00-\u1b7f\ua980-\ua9ff"
    "\uaa60-\uaadf"
)
"""Inside of a class of `re`: the letters of all scripts that are written without spaces.

Beside Han and Kana they are Yi, Tangut, Nushu, Thai, Lao, Tibetan, Myanmar, Khmer, the Tai scripts, Balinese and
Javanese.
"""
UNSPACED = re.compile(f"[{LETTERS}]")
"""Letter, mark or digit of such a script."""
LETTERS_OR_WIDE = LETTERS + "\u3000-\u303f\uff00-\uff60"
"""Inside of a class of `re`: the same, and punctuation and Latin letters in full width."""
UNSPACED_OR_WIDE = re.compile(f"[{LETTERS_OR_WIDE}]")
"""Such a character, or punctuation or a Latin letter in full width, as they stand among Han and Kana."""
