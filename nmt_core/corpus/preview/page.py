"""Write the page: one HTML file with its style, its script and its sample, which loads nothing from elsewhere."""

from typing import Any

import polars as pl

from nmt_core.corpus.preview.judgement import Judged, Preview
from nmt_core.pages.page import render_page

_SHOWN_CHARACTERS = 400


def page(preview: Preview, recipe: str) -> str:
    """Return the page as text. `recipe` is the name of the recipe to display."""
    return render_page(
        "nmt_core.corpus.preview",
        recipe=recipe,
        languages=preview.languages,
        pairs=preview.pairs.height,
        read=preview.read,
        notes=preview.notes,
        data=_data(preview),
    )


def _data(preview: Preview) -> dict[str, Any]:
    """Return the data that the script draws, by the names that the page uses."""
    number = {name: place for place, name in enumerate(preview.corpora)}
    shown = preview.pairs.with_columns(pl.col("source", "target").str.slice(0, _SHOWN_CHARACTERS))
    return {
        "corpora": preview.corpora,
        "languages": [preview.languages.source, preview.languages.target],
        "corpus": [number[name] for name in shown["corpus"]],
        "line": shown["line"].to_list(),
        "source": shown["source"].to_list(),
        "target": shown["target"].to_list(),
        "fault": shown["fault"].to_list(),
        "filters": [_filter(one) for one in preview.filters],
    }


def _filter(one: Judged) -> dict[str, Any]:
    dropped = [place for place, drop in enumerate(one.drops) if drop]
    return {
        "reason": one.reason,
        "remedy": one.remedy,
        "on": one.is_on,
        "drops": dropped,
        "values": [one.values[place] for place in dropped],
        "option": one.option,
        "minimum": one.is_minimum,
        "measures": one.measures,
        "limits": one.limits,
    }
