"""Escaping of foreign text in our Markdown: corpus sentences, names and values of recipes, reasons that users type.

Prefect shows artifacts and the cells of table artifacts as Markdown, and MLflow shows descriptions so. The browser of
every reader would fetch an image in a sentence. So all text that this package did not write goes through `plain`, and
is shown as it was written.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}  # Prefect shows other entities literally
_SPECIAL = re.compile(r"[\\`*_\[\]|~!{}]")
_LINK = re.compile(r"(?i)(?<=\w):(?=//)|(?<=\bwww)\.|(?<=\bmailto):|(?<=\bxmpp):")
_BEGIN = re.compile(r"^(?:[#=]|--|[+-](?=\s|$)|\d+(?=[.)](?:\s|$)))")
_ADDRESS = re.compile(r"https?://[\w.~:/?#%&+=,;-]+")


def plain(text: object) -> str:
    """Return a text as one line of Markdown that shows exactly this text, without image, link, HTML, table or heading.

    It is for Prefect and for everything that follows CommonMark. For MLflow, use `in_mlflow`.
    """
    return _begun(_inline(text))


def in_mlflow(text: object) -> str:
    """Escape a text as `plain` does, for MLflow, which knows no escaped colon. Prefect knows no entity for one."""
    return _begun(_inline(text, colon="&#58;"))


def _begun(line: str) -> str:
    """Escape the beginning of a line that would start a heading, list or rule."""
    if begin := _BEGIN.match(line):
        place = begin.end() if begin[0].isdigit() else 0
        line = f"{line[:place]}\\{line[place:]}"
    return line


def _inline(text: object, colon: str = r"\:") -> str:
    """Escape a text that follows other text on the same line."""
    line = " ".join(str(text).split())
    line = "".join(_ENTITIES.get(character, character) for character in line)
    line = _SPECIAL.sub(r"\\\g<0>", line)
    return _LINK.sub(lambda match: colon if match[0] == ":" else r"\.", line)


def code(text: str) -> str:
    """Return a text as a code span. Backticks in it become spaces."""
    return f"`{' '.join(text.replace('`', ' ').split())}`"


def link(address: str) -> str:
    """Return a web address as a link for MLflow. Any other text is shown as it is."""
    return f"<{address}>" if _ADDRESS.fullmatch(address) else in_mlflow(address)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table whose cells show exactly their texts."""
    texts = [[_inline(text) for text in line] for line in (header, *rows)]
    lines = [texts[0], ["---"] * len(header), *texts[1:]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def cells(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of a Prefect table artifact, whose cells show exactly their texts."""
    return [{name: plain(value) if isinstance(value, str) else value for name, value in row.items()} for row in rows]
