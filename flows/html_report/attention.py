"""What the model attends to while it translates, and how it tells positions apart."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars
from numpy.typing import NDArray

from flows.html_report.blocks import Charts, Run, Section, Text
from flows.html_report.charts import colour_map, heat_map
from flows.html_report.quality import main_sentences
from flows.html_report.svg import Drawing
from nmt_core.bundle import ATTENTION_SET
from nmt_core.config import ModelConfig
from nmt_core.errors import ModelError
from nmt_core.explain.positions import sinusoidal
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizers

_SENTENCES = 3
_MOST_TOKENS = 24  # of either side, so that a map can be read
_FEWEST_TOKENS = 4
_POSITIONS = 48
_DIMENSIONS = 64


def attention(run: Run) -> Section:
    """The cross-attention of three sentences: what each token of the translation takes of each token of the source."""
    title = "Attention"
    model = ModelConfig.model_validate(run.config["model"])
    if model.architecture == "rnn" and model.rnn.attention == "none":
        return Section(title, [Text("The model has none: its decoder sees the source as one vector of fixed length.")])
    artifact, rows = run.artifact("export"), main_sentences(run)
    if artifact is None or rows is None:
        return Section(title, [run.missing("export" if artifact is None else "evaluate")])
    try:
        maps = _maps(artifact.path, rows, run.config["search"]["source_prefix"])
    except (ImportError, ModelError) as error:
        return Section(title, [Text(f"It cannot be shown: {error}.")])
    if not maps:
        lengths = f"{_FEWEST_TOKENS} to {_MOST_TOKENS} tokens"
        return Section(
            title, [Text(f"No sentence of the main test set has {lengths} both as source and as translation.")]
        )
    return Section(title, [Text(_explained(model)), Charts(maps)])


def _explained(model: ModelConfig) -> str:
    of_heads = "" if model.architecture == "rnn" else "Of the last layer, the mean of its heads: "
    source = "Luong et al. 2015, section 3.1" if model.rnn.attention == "dot" else "Bahdanau et al. 2015, figure 3"
    said = (
        f"{of_heads}a row is a token of the translation, and shows what the decoder took of each token of the source "
        f"when it wrote that token ({source})."
    )
    return said[0].upper() + said[1:]


def _maps(bundle: Path, rows: polars.DataFrame, source_prefix: str) -> list[Drawing]:
    from nmt_core.search.attention import AttentionGraph

    graph, tokenizers = AttentionGraph(bundle / ATTENTION_SET), Tokenizers.load(bundle)
    found: list[Drawing] = []
    for source, hypothesis in _spread(rows["source"].to_list(), rows["hypothesis"].to_list()):
        prefix_ids, source_ids = tokenizers.source.encode([source_prefix, source])
        source_ids = prefix_ids + source_ids
        [target_ids] = tokenizers.target.encode([hypothesis])
        longest, shortest = max(len(source_ids), len(target_ids)), min(len(source_ids), len(target_ids))
        if not _FEWEST_TOKENS <= shortest <= longest <= _MOST_TOKENS:
            continue
        maps = graph.run(
            np.array([[*source_ids, EOS_ID]], dtype=np.int64), np.array([[BOS_ID, *target_ids]], dtype=np.int64)
        )
        assert maps.cross_attention is not None
        weights_TS = maps.cross_attention[0, -1].mean(axis=0)
        said = [*(tokenizers.target.piece(token) for token in target_ids), "end"]
        columns = [*(tokenizers.source.piece(token) for token in source_ids), "end"]
        found.append(heat_map(source, said, columns, weights_TS.tolist()))
        if len(found) == _SENTENCES:
            break
    return found


def _spread(sources: Sequence[str], hypotheses: Sequence[str]) -> list[tuple[str, str]]:
    """All, in an order that jumps about, so that the first that fit are not neighbours."""
    step = max(1, len(sources) // (_SENTENCES + 1))
    places = [place for first in range(step) for place in range(first, len(sources), step)]
    return [(sources[place], hypotheses[place]) for place in places if hypotheses[place]]


def positions(run: Run) -> Section:
    """How the model tells positions apart: learned ones as it has them, others by their formula."""
    title = "Positional encoding"
    model = ModelConfig.model_validate(run.config["model"])
    if model.architecture == "rnn":
        return Section(title, [Text("The model reads one token after the other, and needs none.")])
    if model.positions == "learned":
        artifact = run.artifact("export")
        if artifact is None:
            return Section(title, [run.missing("export")])
        try:
            values_LM = _learned(artifact.path)
        except (ImportError, ModelError) as error:
            return Section(title, [Text(f"It cannot be shown: {error}.")])
    else:
        values_LM = sinusoidal(_POSITIONS, model.d_model if model.positions == "sinusoidal" else model.head_widths[0])
    shown_LM = values_LM[:, :_DIMENSIONS] / max(1e-9, float(np.abs(values_LM).max()))
    chart = colour_map("Positional encoding", shown_LM.tolist(), "dimension", "position")
    about = f"{_KINDS[model.positions]}; the first {shown_LM.shape[1]} of {values_LM.shape[1]} dimensions."
    return Section(title, [Text(about), Charts([chart])])


_KINDS = {
    "sinusoidal": "Sines in even dimensions and cosines in odd ones, slower from dimension to dimension, are added to "
    "the embeddings (Vaswani et al. 2017, section 3.5)",
    "learned": "A vector for each position, as the model has learnt it, is added to the embeddings (Vaswani et al. "
    "2017, Table 3, row E); scaled by the largest value",
    "rotary": "Nothing is added to the embeddings: the queries and keys of each head are turned, two dimensions at a "
    "time, by an angle that grows with the position (Su et al. 2021). Shown are the sines of these angles in even "
    "dimensions and their cosines in odd ones",
}


def _learned(bundle: Path) -> NDArray[np.float32]:
    """Of the first positions."""
    from nmt_core.search.attention import AttentionGraph

    source_BS = np.full((1, _POSITIONS), PAD_ID, dtype=np.int64)
    source_BS[0, 0] = EOS_ID
    found = AttentionGraph(bundle / ATTENTION_SET).run(source_BS, np.array([[BOS_ID]], dtype=np.int64)).source_positions
    assert found is not None
    return found
