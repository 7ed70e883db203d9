"""Write the page: one HTML file with its style, its script and its numbers, which loads nothing from elsewhere."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from nmt_core.config import RnnConfig
from nmt_core.explain.drawing import draw
from nmt_core.explain.encoding import encoded
from nmt_core.explain.explanation import Explanation
from nmt_core.explain.heat_maps import heat_maps
from nmt_core.explain.matrices import matrix_groups
from nmt_core.explain.numbers import WIDEST, largest_logits, tables
from nmt_core.explain.positions import sinusoidal
from nmt_core.pages.page import render_page
from nmt_core.search.step import Floats

_LEVELS = 255
_TOLERANCE = 1e-4


def page(explanation: Explanation, model: str) -> str:
    """Return the page as text.

    Args:
        explanation: the sentence, its translation and everything to show.
        model: name of the model to display.
    """
    maps, rnn, groups = explanation.maps, explanation.bundle.rnn, matrix_groups(explanation)
    is_small = explanation.bundle.d_model <= WIDEST
    drawn = [] if is_small else [heat_maps(group) for group in groups]
    return render_page(
        "nmt_core.explain",
        _share,
        explanation=explanation,
        model=model,
        tree=draw(explanation.tree, explanation.piece_of),
        data=_data(explanation) | {"heat_maps": [[one.data for one in group] for group in drawn]},
        rnn=rnn,
        sees_one_vector=rnn is not None and rnn.attention == "none",
        has_self_attention=maps.encoder_attention is not None,
        positions=_positions(explanation),
        probability_source=_probability_source(rnn),
        width=maps.source_embedding.shape[-1] if maps.source_embedding is not None else 0,
        has_cross_attention=maps.cross_attention is not None,
        groups=[group.title for group in groups],
        tables=[tables(group) for group in groups] if is_small else [],
        heat_maps=drawn,
        logits=largest_logits(explanation),
    )


def _data(explanation: Explanation) -> dict[str, Any]:
    """Return the data that the script draws, by the names that the page uses."""
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
        "sum": (_sum(explanation), source),
    }
    return {
        "grids": {name: _grid(matrix, *labels) for name, (matrix, *labels) in grids.items() if matrix is not None},
        "strips": {name: _strip(matrix, rows) for name, (matrix, rows) in strips.items() if matrix is not None},
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


def _sum(explanation: Explanation) -> Floats | None:
    """Return the encoder's input [S, M] if positions are added, else None."""
    embedding_SM, positions_SM = explanation.maps.source_embedding, explanation.maps.source_positions
    if embedding_SM is None or positions_SM is None or explanation.positions_PM is None:
        return None
    return embedding_SM + positions_SM


def _grid(weights_NHTS: Floats, rows: Sequence[str], columns: Sequence[str]) -> dict[str, Any]:
    layers, heads = weights_NHTS.shape[:2]
    weights = np.rint(weights_NHTS[:, :, : len(rows), : len(columns)] * _LEVELS).astype(np.uint8)
    return {"layers": layers, "heads": heads, "rows": rows, "columns": columns, "levels": encoded(weights)}


def _strip(values_LM: Floats, rows: Sequence[str]) -> dict[str, Any]:
    """Return numbers of both signs as shares of the greatest magnitude."""
    greatest = max(float(np.abs(values_LM).max()), 1e-9)
    values = values_LM[: len(rows) or None]
    levels = np.rint(values / greatest * (_LEVELS // 2)).astype(np.int8)
    return {"rows": rows, "width": values.shape[1], "greatest": greatest, "levels": encoded(levels)}


def _mask(mask: Any, rows: Sequence[str], columns: Sequence[str]) -> dict[str, Any]:
    return {"rows": rows, "columns": columns, "levels": encoded(mask.astype(np.uint8) * _LEVELS)}


def _positions(explanation: Explanation) -> Literal["none", "sinusoidal", "learned", "rotary"]:
    """Return the kind of positions that the model uses."""
    added_PM = explanation.positions_PM
    if added_PM is None:
        return "rotary" if explanation.maps.source_positions is not None else "none"
    return "sinusoidal" if np.allclose(added_PM, sinusoidal(*added_PM.shape), atol=_TOLERANCE) else "learned"


def _probability_source(rnn: RnnConfig | None) -> str:
    """Return the paper and section that define how the model computes probabilities from its last vector."""
    if rnn is None:
        return "Vaswani et al. 2017, section 3.4"
    if rnn.attention == "additive":
        return "Bahdanau et al. 2015, appendix A.2.2"
    if rnn.is_global:
        return "Luong et al. 2015, equation 6"
    return "Sutskever et al. 2014, section 2" if rnn.hands_over_states else "Cho et al. 2014, appendix A"


def _share(probability: float) -> str:
    """Return a probability as a short percentage: 97%, 3.1%, 0.02%."""
    return f"{100 * probability:.2g}%" if probability < 0.1 else f"{100 * probability:.0f}%"
