"""The page: one HTML file that holds its style, its script and its numbers, and asks nobody for anything."""

import base64
import math
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from typing import Any

import jinja2
import numpy as np

from nmt_core.explain.drawing import draw
from nmt_core.explain.explanation import Explanation
from nmt_core.search.step import Floats

_LEVELS = 255
_TOLERANCE = 1e-4


def page(explanation: Explanation, model: str) -> str:
    """The page as text.

    Args:
        explanation: what to show.
        model: how the model is known to the reader.
    """
    maps, positions = explanation.maps, explanation.positions_PM
    return _template().render(
        explanation=explanation,
        model=model,
        style=_file("page.css"),
        script=_file("page.js"),
        tree=draw(explanation.tree, explanation.piece_of),
        data=_data(explanation),
        has_self_attention=maps.encoder_attention is not None,
        positions_are_sinusoidal=positions is not None and _is_sinusoidal(positions),
        width=maps.source_embedding.shape[-1] if maps.source_embedding is not None else 0,
        has_cross_attention=maps.cross_attention is not None,
    )


def _data(explanation: Explanation) -> dict[str, Any]:
    """What the script draws, by the name that the page asks for."""
    maps = explanation.maps
    source = [token.piece for token in explanation.source]
    read = [step.read.piece for step in explanation.steps]
    both = [f"{step.read.piece} → {step.said.piece}" for step in explanation.steps]
    grids = {
        "encoder": (maps.encoder_attention, source, source),
        "decoder": (maps.decoder_attention, both, read),
        "cross": (maps.cross_attention, both, source),
    }
    strips = {
        "source_embedding": (maps.source_embedding, source),
        "target_embedding": (maps.target_embedding, read),
        "positions": (explanation.positions_PM, []),
        "sum": (_sum(maps.source_embedding, maps.source_positions), source),
    }
    return {
        "grids": {name: _grid(found, *labels) for name, (found, *labels) in grids.items() if found is not None},
        "strips": {name: _strip(found, rows) for name, (found, rows) in strips.items() if found is not None},
        "masks": _masks(explanation, source, read),
    }


def _masks(explanation: Explanation, source: Sequence[str], read: Sequence[str]) -> dict[str, Any]:
    padding = explanation.padding_2S
    columns = [*source, *["<pad>"] * (padding.shape[1] - len(source))]
    look_ahead = np.tri(len(read), dtype=bool)
    return {
        "padding": _mask(padding, ["this sentence", "a longer one"], columns),
        "look_ahead": _mask(look_ahead, read, read),
    }


def _sum(embedding_LM: Floats | None, positions_LM: Floats | None) -> Floats | None:
    return None if embedding_LM is None or positions_LM is None else embedding_LM + positions_LM


def _grid(weights_NHTS: Floats, rows: Sequence[str], columns: Sequence[str]) -> dict[str, Any]:
    layers, heads = weights_NHTS.shape[:2]
    weights = np.rint(weights_NHTS[:, :, : len(rows), : len(columns)] * _LEVELS).astype(np.uint8)
    return {"layers": layers, "heads": heads, "rows": rows, "columns": columns, "levels": _encoded(weights)}


def _strip(values_LM: Floats, rows: Sequence[str]) -> dict[str, Any]:
    """Numbers of both signs, as shares of the greatest."""
    greatest = max(float(np.abs(values_LM).max()), 1e-9)
    values = values_LM[: len(rows) or None]
    levels = np.rint(values / greatest * (_LEVELS // 2)).astype(np.int8)
    return {"rows": rows, "width": values.shape[1], "greatest": greatest, "levels": _encoded(levels)}


def _mask(mask: Any, rows: Sequence[str], columns: Sequence[str]) -> dict[str, Any]:
    return {"rows": rows, "columns": columns, "levels": _encoded(mask.astype(np.uint8) * _LEVELS)}


def _encoded(levels: Any) -> str:
    return base64.b64encode(np.ascontiguousarray(levels).tobytes()).decode()


def _is_sinusoidal(positions_PM: Floats) -> bool:
    """Whether they are those of Vaswani et al. (2017), section 3.5, and not learnt."""
    count, width = positions_PM.shape
    frequency = np.exp(np.arange(0, width, 2) * (-math.log(10_000.0) / width))
    angle = np.arange(count)[:, None] * frequency
    expected = np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(count, -1)[:, :width]
    return bool(np.allclose(positions_PM, expected, atol=_TOLERANCE))


@lru_cache(maxsize=1)
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["share"] = _share
    return environment.from_string(_file("page.html.jinja"))


def _share(probability: float) -> str:
    """A probability for people: 97%, 3.1%, 0.02%."""
    return f"{100 * probability:.2g}%" if probability < 0.1 else f"{100 * probability:.0f}%"


def _file(name: str) -> str:
    return (resources.files("nmt_core") / "explain" / name).read_text(encoding="utf-8")
