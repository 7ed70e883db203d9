"""Cutting the text of a job into chunks."""

import tracemalloc

from nmt_core.formats.single import Cell
from nmt_core.jobs.staging import cut


def test_a_group_has_no_more_text_than_asked_for_prefixes_included() -> None:
    cells = (Cell("now", prefix=f"{number:01000000}") for number in range(200))
    tracemalloc.start()
    groups = [len(group) for group in cut(cells, 4_096, 2_000_000)]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert groups == [2] * 100
    assert most < 8_000_000


def test_a_group_ends_with_its_rows_or_its_characters() -> None:
    cells = [Cell(text) for text in ("a", "b", "c", "long", "d")]
    assert [[cell.text for cell in group] for group in cut(cells, 2, 4)] == [["a", "b"], ["c", "long"], ["d"]]
    assert [[cell.text for cell in group] for group in cut(cells, 9, 4)] == [["a", "b", "c", "long"], ["d"]]
