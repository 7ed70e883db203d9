"""Text of others inside of our Markdown: corpus sentences, names and values of recipes, reasons that people type.

Prefect shows artifacts as Markdown, and each cell of a table artifact too; MLflow does so with descriptions. An image
in a sentence would be fetched by the browser of everyone who opens the report. So all text that this package did
not write goes through `plain`, and is shown as it was written.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}  # Prefect shows others as they are written
_SPECIAL = re.compile(r"[\\`*_\[\]|~!{}]")
_LINK = re.compile(r"(?i)(?<=\w):(?=//)|(?<=\bwww)\.|(?<=\bmailto):|(?<=\bxmpp):")
_BEGIN = re.compile(r"^(?:[#=]|--|[+-](?=\s|$)|\d+(?=[.)](?:\s|$)))")
_ADDRESS = re.compile(r"https?://[\w.~:/?#%&+=,;-]+")


def plain(text: object) -> str:
    """A text as one line of Markdown that shows just that text: no image, link, HTML, table or heading comes of it.

    For Prefect, and for all that follows CommonMark; for what MLflow shows, see `in_mlflow`.
    """
    return _begun(_inline(text))


def in_mlflow(text: object) -> str:
    """As `plain`, for MLflow, which knows no escaped colon; Prefect in its turn knows no entity for one."""
    return _begun(_inline(text, colon="&#58;"))


def _begun(line: str) -> str:
    """A line that begins nothing: no heading, list or rule."""
    if begin := _BEGIN.match(line):
        place = begin.end() if begin[0].isdigit() else 0
        line = f"{line[:place]}\\{line[place:]}"
    return line


def _inline(text: object, colon: str = r"\:") -> str:
    """A text that something else of ours comes before, on the same line."""
    line = " ".join(str(text).split())
    line = "".join(_ENTITIES.get(character, character) for character in line)
    line = _SPECIAL.sub(r"\\\g<0>", line)
    return _LINK.sub(lambda found: colon if found[0] == ":" else r"\.", line)


def code(text: str) -> str:
    """A text as a code span, without the backticks in it."""
    return f"`{' '.join(text.replace('`', ' ').split())}`"


def link(address: str) -> str:
    """An address that can be clicked in MLflow, if it is one of the web; any other text is shown as it is."""
    return f"<{address}>" if _ADDRESS.fullmatch(address) else in_mlflow(address)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table whose cells show just their texts."""
    texts = [[_inline(text) for text in line] for line in (header, *rows)]
    lines = [texts[0], ["---"] * len(header), *texts[1:]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def cells(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of a table artifact of Prefect, whose cells show just their texts."""
    return [{name: plain(value) if isinstance(value, str) else value for name, value in row.items()} for row in rows]
