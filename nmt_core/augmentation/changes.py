"""List the changes of a pair, by their names in a recipe."""

from nmt_core.augmentation import letters, marks, noise, sentences
from nmt_core.augmentation.draw import Changing
from nmt_core.config import Change

CHANGES: dict[Change, Changing] = {
    "upper_case": letters.upper_case,
    "title_case": letters.title_case,
    "lower_case": letters.lower_case,
    "typos": noise.typos,
    "ocr": noise.ocr,
    "punctuation": noise.punctuation,
    "spaces": noise.spaces,
    "no_diacritics": letters.no_diacritics,
    "emoji": marks.emoji,
    "numbers": marks.numbers,
    "placeholders": marks.placeholders,
    "tags": marks.tags,
    "merge": sentences.merge,
    "split": sentences.split,
}
