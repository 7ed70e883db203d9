"""Differences between a translation and its reference, and between the recipes of two runs."""

import re
from difflib import SequenceMatcher
from typing import Any

from flows.html_report.blocks import Block, Marked, Run, Section, Table, Text
from flows.runs.changes import differing
from nmt_core.text.unspaced import LETTERS

_WORDS = re.compile(rf"[{LETTERS}]|[^\W{LETTERS}]+|\s+|.", re.DOTALL)
"""Words, spaces and marks. In scripts without spaces, a letter is a word."""
_LONGEST = 400
"""Words of a text that are compared. The time grows with their square."""


def with_differences(text: str, other: str) -> Marked:
    """Return a text in which the words are marked that another text does not have, or not in this order."""
    words, other_words = _WORDS.findall(text), _WORDS.findall(other)
    if max(len(words), len(other_words)) > _LONGEST:
        return Marked([(text, False)])
    parts: list[tuple[str, bool]] = []
    for kind, start, end, _, _ in SequenceMatcher(None, words, other_words, autojunk=False).get_opcodes():
        if part := "".join(words[start:end]):
            parts.append((part, kind != "equal" and not part.isspace()))
    return Marked(parts)


def changes(run: Run) -> Section:
    """Show the options that have changed since the last finished run of the recipe."""
    title, before = "Changes of the recipe", run.previous
    if before is None:
        return Section(title, [Text("This is the first finished run of this recipe here.")])
    changed = differing(before.config, run.config)
    rows = [[name, _shown(old), _shown(new)] for name, (old, new) in changed.items() if name != "description"]
    when = f"the run {before.run_id} of {before.started:%Y-%m-%d %H:%M} UTC"
    if not rows:
        return Section(title, [Text(f"None since {when}.")])
    table: Block = Table(["Option", "Before", "Now"], rows, is_stacked=True)
    return Section(title, [Text(f"Since {when}:"), table])


def _shown(value: Any) -> str:
    return "" if value is None else str(value)
