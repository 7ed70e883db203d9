"""Tables on a terminal, all in one style: headings, a line below them, and numbers to the right."""

from collections.abc import Collection, Sequence

from rich import box
from rich.table import Table


def terminal_table(
    columns: Sequence[str], numbers: Collection[str] = (), *, folded: Collection[str] = (), title: str = ""
) -> Table:
    """Return an empty table for a terminal. Add its rows with `add_row`.

    Args:
        columns: Headings.
        numbers: Headings of the columns that belong to the right.
        folded: Headings of the columns whose long texts take several lines. The others keep their width.
        title: Text above the table.
    """
    made = Table(
        title=title or None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,  # so that a run's table fits into 80 columns
    )
    for column in columns:
        is_folded = column in folded
        made.add_column(
            column,
            justify="right" if column in numbers else "left",
            overflow="fold" if is_folded else "ellipsis",
            no_wrap=not is_folded,
        )
    return made
