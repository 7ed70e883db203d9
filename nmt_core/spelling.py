"""Characters that text is freed of, the same for the text that a model learns from and the text that it translates.

The patterns mean the same in Python's regular expressions and in those of polars.
"""

from typing import Literal

UnicodeForm = Literal["NFC", "NFKC"]

# C0 controls that are not white space, soft hyphen, zero-width space, word joiner and byte order mark, marks of writing
# direction, annotations. The zero-width joiners stay: Persian and the scripts of India spell with them.
INVISIBLE = (
    r"\x00-\x08\x0e-\x1f\x7f\u00ad\u061c\u180e\u200b\u200e\u200f"
    r"\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\ufff9-\ufffb"
)
"""Inside of a character class: what cannot be seen."""

SPACES = r"[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"
"""White space of any kind and length; one space takes its place."""
