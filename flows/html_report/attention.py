"""Report sections about the model's attention and its positional encoding."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars
from numpy.typing import NDArray

from flows.html_report.blocks import Charts, Run, Section, Text
from flows.html_report.charts import colour_map, heat_map
from flows.html_report.quality import main_sentences
from flows.html_report.svg import Drawing
from nmt_core.bundle.folder import ATTENTION_SET, read_bundle
from nmt_core.config import ModelConfig
from nmt_core.errors import ModelError
from nmt_core.explain.positions import sinusoidal
from nmt_core.tokenizer.language_tokens import language_token
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizers

_SENTENCES = 3
_MOST_TOKENS = 24  # on either side, so that a map stays readable
_FEWEST_TOKENS = 4
_POSITIONS = 48
_DIMENSIONS = 64


def attention(run: Run) -> Section:
    """Show the cross-attention of three sentences: the weight of each source token for each target token."""
    title = "Attention"
    model = ModelConfig.model_validate(run.config["model"])
    if model.architecture == "rnn" and model.rnn.attention == "none":
        return Section(
            title, [Text("The model has no attention: its decoder sees the source as one vector of fixed length.")]
        )
    artifact, rows = run.artifact("export"), main_sentences(run)
    if artifact is None or rows is None:
        return Section(title, [run.missing("export" if artifact is None else "evaluate")])
    try:
        maps = _maps(artifact.path, rows, run.config["search"]["source_prefix"], _main_pair(run))
    except (ImportError, ModelError) as error:
        return Section(title, [Text(f"The attention cannot be shown: {error}.")])
    if not maps:
        lengths = f"{_FEWEST_TOKENS} to {_MOST_TOKENS} tokens"
        return Section(
            title, [Text(f"No sentence of the main test set has {lengths} in both its source and its translation.")]
        )
    return Section(title, [Text(_explained(model)), Charts(maps)])


def _explained(model: ModelConfig) -> str:
    heads = "" if model.architecture == "rnn" else "The maps show the mean over the heads of the last layer. "
    source = "Luong et al. 2015, section 3.1" if model.rnn.is_global else "Bahdanau et al. 2015, figure 3"
    return (
        f"{heads}Each row is a token of the translation. It shows the decoder's attention weight for each source token "
        f"when it generated that token ({source})."
    )


def _main_pair(run: Run) -> str:
    """Return the pair of languages of the main test set. Empty means the only pair of the recipe."""
    languages, tests = run.config["languages"], run.config["corpus"]["test"]
    return next(iter(tests[0].get("pairs", ()) if tests else languages.get("pairs", ())), "")


def _maps(bundle: Path, rows: polars.DataFrame, source_prefix: str, pair: str) -> list[Drawing]:
    from nmt_core.search.attention import AttentionGraph

    graph, tokenizers = AttentionGraph(bundle / ATTENTION_SET), Tokenizers.load(bundle)
    token = language_token(read_bundle(bundle).languages, pair, tokenizers)
    drawings: list[Drawing] = []
    for source, hypothesis in _spread(rows["source"].to_list(), rows["hypothesis"].to_list()):
        prefix_ids, source_ids = tokenizers.source.encode([source_prefix, source])
        source_ids = token.source + prefix_ids + source_ids
        [target_ids] = tokenizers.target.encode([hypothesis])
        target_ids = token.target + target_ids
        longest, shortest = max(len(source_ids), len(target_ids)), min(len(source_ids), len(target_ids))
        if not _FEWEST_TOKENS <= shortest <= longest <= _MOST_TOKENS:
            continue
        maps = graph.run(
            np.array([[*source_ids, EOS_ID]], dtype=np.int64), np.array([[BOS_ID, *target_ids]], dtype=np.int64)
        )
        assert maps.cross_attention is not None
        weights_TS = maps.cross_attention[0, -1].mean(axis=0)
        row_labels = [*(tokenizers.target.piece(token) for token in target_ids), "end"]
        columns = [*(tokenizers.source.piece(token) for token in source_ids), "end"]
        drawings.append(heat_map(source, row_labels, columns, weights_TS.tolist()))
        if len(drawings) == _SENTENCES:
            break
    return drawings


def _spread(sources: Sequence[str], hypotheses: Sequence[str]) -> list[tuple[str, str]]:
    """Return the sentences that have a translation, in an order that mixes distant ones.

    The first sentences that fit are then not neighbours in the test set.
    """
    step = max(1, len(sources) // (_SENTENCES + 1))
    places = [place for first in range(step) for place in range(first, len(sources), step)]
    return [(sources[place], hypotheses[place]) for place in places if hypotheses[place]]


def positions(run: Run) -> Section:
    """Show the positional encoding: learned vectors from the exported model, other kinds by their formula."""
    title = "Positional encoding"
    model = ModelConfig.model_validate(run.config["model"])
    if model.architecture == "rnn":
        return Section(title, [Text("The model is recurrent and needs no positional encoding.")])
    if model.positions == "learned":
        artifact = run.artifact("export")
        if artifact is None:
            return Section(title, [run.missing("export")])
        try:
            values_LM = _learned(artifact.path)
        except (ImportError, ModelError) as error:
            return Section(title, [Text(f"The positional encoding cannot be shown: {error}.")])
    else:
        values_LM = sinusoidal(_POSITIONS, model.d_model if model.positions == "sinusoidal" else model.head_widths[0])
    shown_LM = values_LM[:, :_DIMENSIONS] / max(1e-9, float(np.abs(values_LM).max()))
    chart = colour_map("Positional encoding", shown_LM.tolist(), "dimension", "position")
    shown = f"The chart shows the first {shown_LM.shape[1]} of {values_LM.shape[1]} dimensions."
    about = f"{_KINDS[model.positions]} {shown}"
    return Section(title, [Text(about), Charts([chart])])


_KINDS = {
    "sinusoidal": "Sinusoids are added to the embeddings: sines in even dimensions and cosines in odd ones, with a "
    "wavelength that grows with the dimension (Vaswani et al. 2017, section 3.5).",
    "learned": "A learned vector for each position is added to the embeddings (Vaswani et al. 2017, Table 3, row E). "
    "The values are scaled by the largest one.",
    "rotary": "Nothing is added to the embeddings: the queries and keys of each head are rotated, two dimensions at a "
    "time, by an angle that grows with the position (Su et al. 2021). The chart has the sines of these angles in even "
    "dimensions and their cosines in odd ones.",
}


def _learned(bundle: Path) -> NDArray[np.float32]:
    """Return the learned vectors of the first positions, as the exported model computes them."""
    from nmt_core.search.attention import AttentionGraph

    source_BS = np.full((1, _POSITIONS), PAD_ID, dtype=np.int64)
    source_BS[0, 0] = EOS_ID
    positions = (
        AttentionGraph(bundle / ATTENTION_SET).run(source_BS, np.array([[BOS_ID]], dtype=np.int64)).source_positions
    )
    assert positions is not None
    return positions
