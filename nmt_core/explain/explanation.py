"""Compute everything that the page shows of a sentence and its translation, with the graphs of a bundle in fp32.

Letters in names of arrays: S source positions, T target positions, C candidates, P positions, M `d_model`.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nmt_core.bundle.folder import (
    ATTENTION_SET,
    BundleConfig,
    check_files,
    graph_files,
    hashed_or_there,
    read_bundle,
    read_tokenizers,
    step_file,
)
from nmt_core.bundle.opened import open_stepper
from nmt_core.config import SearchConfig
from nmt_core.errors import DataError
from nmt_core.explain.trace import BeamTrace, Node
from nmt_core.search.alignment import ALIGNMENT_FILE, Aligner, Alignment
from nmt_core.search.attention import ATTENTION_FILE, WORKED_FILE, AttentionGraph, AttentionMaps, worked_example
from nmt_core.search.beam import n_best
from nmt_core.search.hypothesis import Hypothesis, length_penalty
from nmt_core.search.step import Floats, Ints, Stepper, pad_sources
from nmt_core.spelling import Spelling
from nmt_core.tokenizer.language_tokens import language_token, pair_for
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizer, Tokenizers

MOST_PIECES = 100
"""Maximum number of pieces of a sentence. Pages of longer ones are unreadable."""
_CANDIDATES = 8
_POSITIONS = 64
_PADDED = 3
"""Number of tokens by which the other sentence is longer, in the picture of the padding mask."""


@dataclass(frozen=True)
class Token:
    """Piece of the vocabulary."""

    piece: str
    id: int


@dataclass(frozen=True)
class Candidate:
    """Token that may come next."""

    token: Token
    probability: float
    is_taken: bool


@dataclass(frozen=True)
class Step:
    """Step of the decoder on the path to the translation."""

    read: Token
    """Token that the decoder reads, which is the token of the step before."""
    said: Token
    candidates: tuple[Candidate, ...]
    """Likeliest tokens, best first. The search may have taken another token."""


@dataclass(frozen=True)
class FoundTranslation:
    """Translation that the search has found."""

    text: str
    sum: float
    """Sum of the log-probabilities of its tokens, in nats."""
    penalty: float
    score: float


@dataclass(frozen=True)
class Explanation:
    """Content of the page."""

    line: str
    text: str
    bundle: BundleConfig
    search: SearchConfig
    source: tuple[Token, ...]
    """Tokens of the source, with the end mark."""
    steps: tuple[Step, ...]
    found: tuple[FoundTranslation, ...]
    """Translations that the search has found, best first."""
    tree: tuple[Node, ...]
    maps: AttentionMaps
    """Attention and embeddings of this sentence, without the axis of sentences."""
    alignment: Alignment | None
    """Alignment between words. None if the model has no attention."""
    positions_PM: Floats | None
    """Vectors that are added at the first positions. None if there are none, as with recurrence or rotary positions."""
    padding_2S: npt.NDArray[np.bool_]
    """Padding mask of this sentence and a longer one in a batch: True where there is a token."""
    piece_of: tuple[str, ...]
    """Piece of each node of the tree."""
    worked: dict[str, Floats] | None = None
    """Matrices of the first layers by their names, without the axis of sentences. None if the bundle has no graph for
    them."""


def explain(folder: Path, line: str, search: SearchConfig, to: str = "") -> Explanation:
    """Translate a line and record everything that the page shows.

    The line goes through the model as a whole. A translator may split it into sentences, and copies what the vocabulary
    cannot spell; neither happens here.

    Args:
        folder: folder of the bundle.
        line: the sentence.
        search: options of the search. It is always a beam search that returns as many translations as its beam size.
        to: target language or pair of a model for many languages. Empty means the model's only one.

    Raises:
        DataError: the line holds no text, or is too long for a page.
        ModelError: the bundle is damaged, or was exported before attention could be shown.
        ConfigError: the search requires a shortlist, and the bundle has none.
    """
    bundle, search = read_bundle(folder), _of_beam(search)
    views = [f"{ATTENTION_SET}/{name}" for name in (ATTENTION_FILE, ALIGNMENT_FILE, WORKED_FILE)]
    step = step_file(folder, bundle, ATTENTION_SET, search)
    check_files(folder, bundle, graph_files(ATTENTION_SET, step) + hashed_or_there(folder, bundle, views))
    graphs = folder / ATTENTION_SET
    has_attention = bundle.rnn is None or bundle.rnn.attention != "none"
    attention = AttentionGraph(graphs) if has_attention else None
    tokenizers = read_tokenizers(folder, bundle)
    stepper = open_stepper(folder / ATTENTION_SET, bundle, "cpu", step)
    pair = pair_for(bundle.languages, to)
    token = language_token(bundle.languages, pair, tokenizers)
    tag, ids = _source_ids(line, tokenizers, bundle, search, pair)
    tag = tokenizers.source.start_ids + token.source + tag
    [prefix] = tokenizers.target.encode([search.target_prefix])
    prefix = tokenizers.target.start_ids + token.target + prefix
    trace = BeamTrace()
    [hypotheses] = n_best(stepper, [tag + ids], search, [prefix], trace)
    best, target = hypotheses[0], tokenizers.target
    source_1S = pad_sources([tag + ids])
    target_1T = np.array([[BOS_ID, *best.ids]])
    maps = attention.run(source_1S, target_1T) if attention else AttentionMaps()
    worked = worked_example(graphs, source_1S, target_1T)
    texts = target.decode([one.ids for one in hypotheses])
    tree = trace.tree(search.length_penalty, len(prefix))
    return Explanation(
        line,
        texts[0],
        bundle,
        search,
        tuple(Token(tokenizers.source.piece(index), index) for index in source_1S[0].tolist()),
        _steps(stepper, source_1S, best, target),
        tuple(_found(text, one, search, len(prefix)) for text, one in zip(texts, hypotheses, strict=True)),
        tree,
        _of_one(maps),
        _alignment(folder, tokenizers, line, (tag, ids, best)) if attention else None,
        _positions(attention, bundle) if attention and maps.source_positions is not None else None,
        pad_sources([tag + ids, tag + ids + ids[:1] * _PADDED]) != PAD_ID,
        tuple(target.piece(node.token) for node in tree),
        {name: matrix[0] for name, matrix in worked.items()} if worked else None,
    )


def _of_beam(search: SearchConfig) -> SearchConfig:
    whole = {"split_sentences": "never", "copy_unknown": "never"}
    return search.model_copy(update={"method": "beam", "n_best": search.beam_size, **whole})


def _source_ids(
    line: str, tokenizers: Tokenizers, bundle: BundleConfig, search: SearchConfig, pair: str
) -> tuple[list[int], list[int]]:
    """Return the ids of the source prefix and of the line."""
    languages = bundle.languages.of(pair) if pair else bundle.languages
    spelling = Spelling(bundle.unicode_form, bundle.punctuation, languages.source)
    prefix, ids = tokenizers.source.encode([search.source_prefix, spelling.tidy(line)])
    if not ids:
        raise DataError(f"{line!r}: contains no text: give a sentence")
    if len(ids) > MOST_PIECES:
        raise DataError(
            f"{line[:40]!r}...: has {len(ids):,} pieces, more than the {MOST_PIECES} of a page: give a shorter sentence"
        )
    return prefix, ids


def _steps(stepper: Stepper, source_1S: Ints, best: Hypothesis, target: Tokenizer) -> tuple[Step, ...]:
    """Return the likeliest tokens at each step, while the decoder is forced to follow the translation."""
    decoding = stepper.start(source_1S, min(_CANDIDATES, stepper.vocab_size))
    written = [*best.ids] if best.cut else [*best.ids, EOS_ID]
    steps = list[Step]()
    for read, says in zip([BOS_ID, *best.ids], written, strict=False):
        log_prob_1C, id_1C = decoding.step(np.array([read]), np.array([0]))
        candidates = tuple(
            Candidate(Token(target.piece(index), index), float(np.exp(log_prob)), index == says)
            for index, log_prob in zip(id_1C[0].tolist(), log_prob_1C[0].tolist(), strict=True)
        )
        steps.append(Step(Token(target.piece(read), read), Token(target.piece(says), says), candidates))
    return tuple(steps)


def _found(text: str, one: Hypothesis, search: SearchConfig, given: int) -> FoundTranslation:
    penalty = length_penalty(len(one.ids) + (not one.cut) - given, search.length_penalty)
    return FoundTranslation(text, one.score * penalty, penalty, one.score)


def _of_one(maps: AttentionMaps) -> AttentionMaps:
    """Return the maps of the only sentence of a batch."""
    per_sentence = ("cross_attention", "encoder_attention", "decoder_attention", "source_embedding", "target_embedding")
    arrays = {name: getattr(maps, name) for name in per_sentence}
    return replace(maps, **{name: array[0] for name, array in arrays.items() if array is not None})


def _positions(attention: AttentionGraph, bundle: BundleConfig) -> Floats | None:
    filler_1P = np.full((1, min(_POSITIONS, bundle.max_positions)), EOS_ID)
    positions_PM = attention.run(filler_1P, np.array([[BOS_ID]])).source_positions
    return positions_PM if positions_PM is not None and positions_PM.any() else None  # rotary positions add nothing


def _alignment(
    folder: Path,
    tokenizers: Tokenizers,
    line: str,
    ids: tuple[list[int], list[int], Hypothesis],
) -> Alignment:
    tag, source, best = ids
    [[linked]] = Aligner(folder / ATTENTION_SET, batch_tokens=1).align([tag + source], [[best]], skipped=len(tag))
    pieces = tuple(map(tokenizers.source.piece, source)), tuple(map(tokenizers.target.piece, best.ids))
    return Alignment(linked.links, *pieces).of_words(line, tokenizers.target.decode([best.ids])[0])
