"""What the model attends to while it translates, and how it tells positions apart."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flows.html_report.blocks import Block, Charts, Run, Section, Text
from flows.html_report.charts import colour_map, heat_map
from flows.html_report.quality import main_sentences
from flows.html_report.svg import Drawing
from nmt_core.errors import ModelError
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizers

_SENTENCES = 3
_MOST_TOKENS = 24  # of either side, so that a map can be read
_FEWEST_TOKENS = 4
_POSITIONS = 48
_DIMENSIONS = 64


def attention(run: Run) -> Section:
    """The cross-attention of three sentences: what each token of the translation takes of each token of the source."""
    title = "Attention"
    artifact, rows = run.artifact("export"), main_sentences(run)
    if artifact is None or rows is None:
        return Section(title, [run.missing("export" if artifact is None else "evaluate")])
    try:
        maps = _maps(artifact.path, rows["source"].to_list(), rows["hypothesis"].to_list())
    except (ImportError, ModelError) as error:
        return Section(title, [Text(f"It cannot be shown: {error}.")])
    if not maps:
        return Section(title, [Text("No sentence of the main test set is short enough to be shown.")])
    explained = Text(
        "Of the last layer, the mean of its heads: a row is a token of the translation, and shows what the decoder "
        "took of each token of the source when it wrote that token (Bahdanau et al. 2015, figure 3)."
    )
    return Section(title, [explained, Charts(maps)])


def _maps(bundle: Path, sources: Sequence[str], hypotheses: Sequence[str]) -> list[Drawing]:
    from nmt_core.search.attention import AttentionGraph

    graph, tokenizers = AttentionGraph(bundle / "fp32"), Tokenizers.load(bundle)
    found: list[Drawing] = []
    for source, hypothesis in _spread(sources, hypotheses):
        [source_ids], [target_ids] = tokenizers.source.encode([source]), tokenizers.target.encode([hypothesis])
        longest, shortest = max(len(source_ids), len(target_ids)), min(len(source_ids), len(target_ids))
        if not _FEWEST_TOKENS <= shortest <= longest <= _MOST_TOKENS:
            continue
        maps = graph.run(
            np.array([[*source_ids, EOS_ID]], dtype=np.int64), np.array([[BOS_ID, *target_ids]], dtype=np.int64)
        )
        if maps.cross_attention is None:
            raise ModelError("the model has no attention between source and target")
        weights_TS = maps.cross_attention[0, -1].mean(axis=0)
        rows = [*(tokenizers.target.piece(token) for token in target_ids), "end"]
        columns = [*(tokenizers.source.piece(token) for token in source_ids), "end"]
        found.append(heat_map(source, rows, columns, weights_TS.tolist()))
        if len(found) == _SENTENCES:
            break
    return found


def _spread(sources: Sequence[str], hypotheses: Sequence[str]) -> list[tuple[str, str]]:
    """All, in an order that jumps about, so that the first that fit are not neighbours."""
    step = max(1, len(sources) // (_SENTENCES + 1))
    places = [place for first in range(step) for place in range(first, len(sources), step)]
    return [(sources[place], hypotheses[place]) for place in places if hypotheses[place]]


def positions(run: Run) -> Section:
    """Positional encoding: learned ones as the model has them, others by their formula (Vaswani et al. 2017, 3.5)."""
    title = "Positional encoding"
    model = run.config["model"]
    if model.get("architecture", "transformer") != "transformer":
        return Section(title, [Text("The model reads one token after the other, and needs none.")])
    if model.get("positions", "sinusoidal") == "sinusoidal":
        values_LM = sinusoidal(_POSITIONS, model["d_model"])
        said = "Sines in even dimensions and cosines in odd ones, slower from dimension to dimension (section 3.5)"
    else:
        artifact = run.artifact("export")
        if artifact is None:
            return Section(title, [run.missing("export")])
        try:
            values_LM = _learned(artifact.path)
        except (ImportError, ModelError) as error:
            return Section(title, [Text(f"It cannot be shown: {error}.")])
        said = "A vector for each position, as the model has learnt it, scaled by the largest value"
    shown_LM = values_LM[:, :_DIMENSIONS] / max(1e-9, float(np.abs(values_LM).max()))
    chart = colour_map("Positional encoding", shown_LM.tolist(), "dimension", "position")
    blocks: list[Block] = [Text(f"{said}; the first {shown_LM.shape[1]} of {model['d_model']} dimensions.")]
    return Section(title, [*blocks, Charts([chart])])


def _learned(bundle: Path) -> NDArray[np.float32]:
    """Of the first positions."""
    from nmt_core.search.attention import AttentionGraph

    source_BS = np.full((1, _POSITIONS), PAD_ID, dtype=np.int64)
    source_BS[0, 0] = EOS_ID
    found = AttentionGraph(bundle / "fp32").run(source_BS, np.array([[BOS_ID]], dtype=np.int64)).source_positions
    if found is None:
        raise ModelError("the model has no positions")
    return found


def sinusoidal(length: int, d_model: int) -> NDArray[np.float32]:
    """Positions of section 3.5, [length, d_model]."""
    position_L1 = np.arange(length)[:, None]
    frequency_M = 10_000.0 ** (-(np.arange(d_model) // 2 * 2) / d_model)
    angle_LM = position_L1 * frequency_M
    return np.where(np.arange(d_model) % 2, np.cos(angle_LM), np.sin(angle_LM)).astype(np.float32, copy=False)
