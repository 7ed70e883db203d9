"""Lay out the tree of a beam search: a column for each step, the best hypotheses on top, the ended ones below."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from nmt_core.explain.trace import Node

_WIDTH, _HEIGHT = 92, 34
"""Width and height of a box, in pixels."""
_ACROSS, _DOWN = 34, 10
"""Horizontal and vertical distance between boxes, in pixels."""
_HEAD = 24
"""Height of the line with the numbers of the steps, in pixels."""
_LONGEST = 10
"""Number of characters of a piece that fit into a box."""


@dataclass(frozen=True)
class Box:
    """Box of a hypothesis, and the line from its parent."""

    x: int
    y: int
    label: str
    note: str
    title: str
    style: str
    path: str
    """SVG path of the line. Empty if the hypothesis has no parent."""


@dataclass(frozen=True)
class Drawing:
    """Tree with the position of every box."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    columns: tuple[int, ...]
    """Horizontal centre of each step, from left to right."""
    box_width: int = _WIDTH
    box_height: int = _HEIGHT


def draw(tree: Sequence[Node], pieces: Sequence[str]) -> Drawing:
    """Lay out the nodes of a tree, with the piece of each node."""
    kept = Counter(node.step for node in tree if node.state != "ended")
    rows_of_kept = max(kept.values())
    placed: Counter[tuple[int, bool]] = Counter()
    corners = list[tuple[int, int]]()
    for node in tree:
        has_ended = node.state == "ended"
        row = placed[node.step, has_ended] + rows_of_kept * has_ended
        placed[node.step, has_ended] += 1
        corners.append((_ACROSS // 2 + node.step * (_WIDTH + _ACROSS), _HEAD + row * (_HEIGHT + _DOWN)))
    boxes = [
        _box(node, piece, corner, corners[node.parent] if node.parent is not None else None)
        for node, piece, corner in zip(tree, pieces, corners, strict=True)
    ]
    steps = 1 + max(node.step for node in tree)
    return Drawing(
        steps * (_WIDTH + _ACROSS),
        max(y for _, y in corners) + _HEIGHT + _DOWN,
        tuple(sorted(boxes, key=lambda box: "chosen" in box.style)),  # chosen boxes are drawn over the others
        tuple(_ACROSS // 2 + step * (_WIDTH + _ACROSS) + _WIDTH // 2 for step in range(steps)),
    )


def _box(node: Node, piece: str, corner: tuple[int, int], parent: tuple[int, int] | None) -> Box:
    x, y = corner
    style = node.state.replace(" ", "-") + (" chosen" if node.chosen else "")
    note = f"{node.sum:.2f}" if node.score is None else f"score {node.score:.2f}"
    title = f"{piece}: {node.state}, sum of log-probabilities {node.sum:.3f}"
    path = ""
    if parent:
        left, right, middle = parent[0] + _WIDTH, x, x - _ACROSS // 2
        path = f"M{left} {parent[1] + _HEIGHT // 2}C{middle} {parent[1] + _HEIGHT // 2} {middle} {y + _HEIGHT // 2} "
        path += f"{right} {y + _HEIGHT // 2}"
    label = piece if len(piece) <= _LONGEST else f"{piece[: _LONGEST - 1]}…"
    return Box(x, y, label, note, title, style, path)
