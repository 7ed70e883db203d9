"""Cut a line into its sentences, and keep the line breaks and the other text between them. Imports no torch.

A model whose training text had one sentence in each row translates one sentence of a line and leaves the others out.
`Translator` therefore translates the line sentence by sentence (`search.split_sentences`).

sentencex finds the ends: it knows the abbreviations of many languages and the full stops of Chinese and Japanese, and
never loses a character. Rules of this module join what it cuts too often: behind the number of a list, behind a German
ordinal, before a lower-case letter, and between a quotation and the Japanese verb that follows it.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import sentencex

from nmt_core.search.long_lines import END_OF_SENTENCE

ROWS_WITH_SEVERAL = 0.1
"""Share of training rows with several sentences above which a model can translate several sentences at once.

In corpora that are aligned by sentence it is 0 to 0.03, and in TED talks, which are not, 0.33.
"""

Literal = str
"""Text that is copied as it is."""

# White space is matched from its first character, once: 100,000 spaces take no longer than other text.
LINE_BREAK = re.compile(r"(?<!\s)[^\S\n\r\u2028\u2029]*+[\n\r\u2028\u2029]\s*+")
"""White space with at least one line break or paragraph mark."""

_CUT_BY_SPLITLINES = re.compile(r"[\n-\r\x1c-\x1e\x85\u2028\u2029]")
_ODD_SPACES = re.compile(r"[^\S \n]")
_LIST_NUMBER = re.compile(r"\s*[\"'“„«(]?(?:\d{1,3}|[A-Za-z])[.)]\s*")
_LOWER_CASE = re.compile(r"[,;:)\]}]|\W*[^\W\d_]")
_GERMAN_ORDINAL = re.compile(
    r"\b(?:am|vom|zum|zur|im|beim|bis|der|die|das|dem|den|des|ein|einen|einem|eines|eine|einer|jeder|jeden|seit|ab|nach)"
    r"\s+\d{1,3}\.\s*$",
    re.IGNORECASE,
)
_GERMAN_MONTH = re.compile(
    r"(?:Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember|Jahrhunderts?)\b"
)
_ENDS_IN_NUMBER = re.compile(r"\b\d{1,3}\.\s*$")
_JAPANESE_QUOTED = re.compile(r"[」』]\s*$")


def sentences_of(text: str, language: str) -> list[str]:
    """Return the sentences of a text, which together are the text.

    Args:
        text: any text. A line break is white space here, see `layout_of`.
        language: ISO 639 code. Rules of English hold for a language that sentencex does not know.
    """
    sentences: list[str] = []
    has_capitals = any(map(str.isupper, text))
    for sentence in _cut(text, re.split("[-_]", language)[0]):
        if sentences and _belongs_to(sentences[-1], sentence, language, has_capitals):
            sentences[-1] += sentence
        else:
            sentences.append(sentence)
    return sentences


def layout_of(text: str, language: str, tidy: Callable[[str], str]) -> list[tuple[str, Literal]]:
    """Return the sentences of a text, each tidied, with the line breaks behind it.

    A sentence is empty where line breaks begin the text. A text without words has no sentences.
    """
    layout: list[tuple[str, Literal]] = []
    for paragraph, breaks in _paragraphs(text):
        tidied = [tidy(sentence) for sentence in sentences_of(tidy(paragraph), language)]
        rows = [(sentence, "") for sentence in tidied if sentence] or [("", "")]
        layout += [*rows[:-1], (rows[-1][0], breaks)]
    return layout if any(sentence for sentence, _ in layout) else []


def on_one_line(text: str) -> str:
    """Return a text of the same length with a space for each character at which `str.splitlines` cuts."""
    return _CUT_BY_SPLITLINES.sub(" ", text)


def share_with_several(rows: Sequence[str], language: str) -> float:
    """Return the share of rows that hold more than one sentence. 0 if there are no rows."""
    return sum(len(sentences_of(row, language)) > 1 for row in rows) / max(len(rows), 1)


def _paragraphs(text: str) -> Iterator[tuple[str, Literal]]:
    start = 0
    for match in LINE_BREAK.finditer(text):
        yield text[start : match.start()], match[0]
        start = match.end()
    if start < len(text):
        yield text[start:], ""


def _cut(text: str, language: str) -> list[str]:
    # sentencex panics at a letter, a space other than " " and a full stop. The exception derives from BaseException.
    plain = _ODD_SPACES.sub(" ", text)
    try:
        sentences: list[str] = sentencex.segment(language or "en", plain)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
            raise
        sentences = []
    if "".join(sentences) != plain:
        ends = [match.end() for match in END_OF_SENTENCE.finditer(text)]
        return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True) if start < end]
    ends = [0]
    for sentence in sentences:
        ends.append(ends[-1] + len(sentence))
    return [text[start:end] for start, end in pairwise(ends)]


def _belongs_to(former: str, sentence: str, language: str, has_capitals: bool) -> bool:
    """Return True if the end of `former` is no end of a sentence."""
    if not sentence.strip() or not former.strip() or _LIST_NUMBER.fullmatch(former):
        return True
    begin = _LOWER_CASE.match(sentence)
    if has_capitals and begin and not begin[0][-1].isupper() and not _LIST_NUMBER.match(sentence):
        return begin[0][-1].islower() or not begin[0][-1].isalpha()
    if language.startswith("de") and _ENDS_IN_NUMBER.search(former):
        return bool(_GERMAN_ORDINAL.search(former) or _GERMAN_MONTH.match(sentence))
    return language.startswith("ja") and bool(_JAPANESE_QUOTED.search(former)) and sentence.startswith(("と", "って"))
