"""Differences between a translation and its reference, and between the recipes of two runs."""

import re
from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any

from flows.html_report.blocks import Block, Marked, Run, Section, Table, Text
from flows.tracking.lineage import leaves

_WORDS = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]|\w+|\s+|.", re.DOTALL)
"""Words, spaces and marks. In scripts without spaces, a letter is a word."""
_LONGEST = 400
"""Words of a text that are compared. The time grows with their square."""


def with_differences(text: str, other: str) -> Marked:
    """Return a text in which the words are marked that another text does not have, or not in this order."""
    ours, theirs = _WORDS.findall(text), _WORDS.findall(other)
    if max(len(ours), len(theirs)) > _LONGEST:
        return Marked([(text, False)])
    parts: list[tuple[str, bool]] = []
    for kind, start, end, _, _ in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if part := "".join(ours[start:end]):
            parts.append((part, kind != "equal" and not part.isspace()))
    return Marked(parts)


def changes(run: Run) -> Section:
    """Show the options that have changed since the last finished run of the recipe."""
    title, before = "Changes of the recipe", run.previous
    if before is None:
        return Section(title, [Text("This is the first finished run of this recipe here.")])
    rows = _changed(before.config, run.config)
    when = f"the run {before.run_id} of {before.started:%Y-%m-%d %H:%M} UTC"
    if not rows:
        return Section(title, [Text(f"None since {when}.")])
    table: Block = Table(["Option", "Before", "Now"], rows, is_stacked=True)
    return Section(title, [Text(f"Since {when}:"), table])


def _changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[list[str]]:
    earlier, present = leaves(before), leaves(now)
    names = dict.fromkeys((*present, *earlier))
    return [
        [name, _shown(earlier, name), _shown(present, name)]
        for name in names
        if name != "description" and earlier.get(name) != present.get(name)
    ]


def _shown(options: Mapping[str, Any], name: str) -> str:
    value = options.get(name)
    return "" if value is None else str(value)
