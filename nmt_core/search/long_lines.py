"""Split lines that are longer than the model can read into sentences, which are translated one by one and joined."""

import re

from nmt_core.tokenizer.tokenizer import SPACE_MARK, Tokenizer

# A run of marks is matched once, from its first one: 50,000 full stops in a row take no longer than other text.
END_OF_SENTENCE = re.compile(
    r"""(?<![.!?…])[.!?…]++["'”’»)\]]*+\s++|(?<![。！？｡])[。！？｡]++[」』”’）]*+\s*+""",
)
"""End of a sentence, by punctuation alone."""
_WITHOUT_SPACES = frozenset(
    {"bo", "dz", "gan", "hak", "hsn", "ja", "km", "lo", "lzh", "my", "nan", "shn", "th", "wuu", "yue", "zh"}
)


def parts_of(line: str, tokenizer: Tokenizer, limit: int) -> list[list[int]]:
    """Return the ids of each part of a line, in order: its sentences, or parts of a longer one.

    A sentence of more than `limit` tokens is split into parts. Every token of the line is in one part. Abbreviations
    may be taken for ends of sentences.
    """
    parts: list[list[int]] = []
    for ids in tokenizer.encode(by_punctuation(line)):
        while len(ids) > limit:
            end = _end_of_words(ids, tokenizer, limit)
            parts.append(ids[:end])
            ids = ids[end:]
        if ids:
            parts.append(ids)
    return parts


def by_punctuation(line: str) -> list[str]:
    """Return the sentences of a line by its punctuation alone, without spaces at their ends."""
    ends = [match.end() for match in END_OF_SENTENCE.finditer(line)]
    sentences = [line[start:end].strip(" ") for start, end in zip([0, *ends], [*ends, len(line)], strict=True)]
    return [sentence for sentence in sentences if sentence]


def joiner(language: str) -> str:
    """Return the text between two sentences in a language (ISO 639 code): a space or nothing."""
    return "" if re.split("[-_]", language)[0] in _WITHOUT_SPACES else " "


def _end_of_words(ids: list[int], tokenizer: Tokenizer, limit: int) -> int:
    """Return the place at which to cut.

    That is before the last word that begins in the second half of the first `limit` tokens, or `limit` if none does.
    """
    for place in range(limit, limit // 2, -1):
        if tokenizer.piece(ids[place]).startswith(SPACE_MARK):
            return place
    return limit
