"""Align the words of a translation with the words of its source, by the model's attention. Imports no torch.

A piece of the translation is linked to the source piece with the most attention. A model with `model.alignment_layer`
has heads that learned to align. They align the piece that a step reads, which is more exact than the piece that it
produces (Chen et al. 2020, "Accurate Word Alignment Induction from Neural Machine Translation"). In other models, the
attention is the mean over all heads of the decoder's last two layers at the step that produces the piece, which was the
best of the variants that were measured (`docs/reference/benchmarks-record.md`). A piece that attends most to the end
mark is not linked. Two words are linked if any of their pieces are.

Letters: see `nmt_core.models`. Here W counts words.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from nmt_core.errors import ModelError
from nmt_core.search.attention import ATTENTION_FILE, AttentionGraph
from nmt_core.search.hypothesis import Hypothesis, Links
from nmt_core.search.onnx_session import Device, open_graph
from nmt_core.search.step import Floats, Ints, pad_sources
from nmt_core.tokenizer.tokenizer import BOS_ID, PAD_ID, SPACE_MARK

Ids = tuple[Sequence[int], Sequence[int]]
"""Ids of a source and of its target, without marks."""

ALIGNMENT_FILE = "alignment.onnx"
ALIGNMENT_OUTPUT = "attention"
_BYTE = re.compile("<0x([0-9A-F]{2})>")
_CONTINUES = range(0x80, 0xC0)
"""Bytes of UTF-8 that do not begin a character."""


@dataclass(frozen=True)
class Alignment:
    """Links between the words of a line and the words of its translation, or between their pieces."""

    links: Links = ()
    """Pairs (number in the source, number in the translation), from 0 and in ascending order."""
    source: tuple[str, ...] = ()
    """Pieces of the source, if the links are between pieces."""
    target: tuple[str, ...] = ()
    """Pieces of the translation, if the links are between pieces."""

    @property
    def pharaoh(self) -> str:
        """Links in the Pharaoh format, such as `0-0 1-2`."""
        return " ".join(f"{source}-{target}" for source, target in self.links)

    def of_words(self, source: str, target: str) -> "Alignment":
        """Return the links between words, as `str.split` finds them in these texts, from the links between pieces."""
        of_source, of_target = words_of_pieces(self.source, source), words_of_pieces(self.target, target)
        if not source.split() or not target.split():
            return Alignment()
        return Alignment(tuple(sorted({(of_source[one], of_target[other]) for one, other in self.links})))


def joined(parts: Iterable[Alignment]) -> Alignment:
    """Return the alignment between the pieces of a line, from the alignments of its parts in order."""
    links, source, target = list[tuple[int, int]](), list[str](), list[str]()
    for part in parts:
        links += [(one + len(source), other + len(target)) for one, other in part.links]
        source += part.source
        target += part.target
    return Alignment(tuple(links), tuple(source), tuple(target))


def words_of_pieces(pieces: Sequence[str], text: str) -> list[int]:
    """Return for each piece of a text the number of the word that contains it.

    A mark shows which pieces begin a word. If these words are not the words of the text, as after a tokenizer that
    splits at more places, characters are counted instead. For a text that was changed on its way, the result is
    approximate.
    """
    words = text.split()
    marks = np.array([piece.startswith(SPACE_MARK) for piece in pieces], dtype=np.int64)
    if not words or not len(marks):
        return [0] * len(pieces)
    numbers = marks.cumsum() - marks[0]
    if numbers[-1] + 1 != len(words):
        sizes = np.array([_size(piece) for piece in pieces])
        ends_W = np.cumsum([_size(word) for word in words])
        starts = (sizes.cumsum() - sizes) * (ends_W[-1] / max(int(sizes.sum()), 1))
        numbers = np.minimum(np.searchsorted(ends_W, starts + 1e-6, side="right"), len(words) - 1)
        for place in np.flatnonzero((sizes == 0) & (marks == 0)).tolist():  # these continue the character before them
            numbers[place] = numbers[max(place - 1, 0)]
    word_numbers: list[int] = numbers.tolist()
    return word_numbers


def _size(text: str) -> int:
    """Return the number of visible characters of a piece or word, however they are composed.

    A byte that continues a character counts as none.
    """
    if byte := _BYTE.fullmatch(text):
        return int(byte[1], 16) not in _CONTINUES
    if text == "<unk>":
        return 1
    seen = unicodedata.normalize("NFKC", text.replace(SPACE_MARK, ""))
    return sum(unicodedata.category(character)[0] not in "CZ" for character in seen)


class Aligner:
    """Aligner that runs the graph of one model. Threads may share it.

    Args:
        folder: folder of the graphs in fp32: `<bundle>/fp32`.
        batch_tokens: positions that are computed together on either side, padding included.
        device: device to compute on.

    Raises:
        ModelError: there is no such graph, or onnxruntime cannot run it.
    """

    def __init__(self, folder: Path, batch_tokens: int, device: Device = "cpu") -> None:
        self._session, self._stepwise = None, None
        if (folder / ALIGNMENT_FILE).is_file():
            self._session = open_graph(folder / ALIGNMENT_FILE, device)
        elif (folder / ATTENTION_FILE).is_file():
            self._stepwise = AttentionGraph(folder, device)
        else:
            raise ModelError(
                f"{folder / ALIGNMENT_FILE}: missing: the bundle is from a version without alignments, or its model "
                "has no attention: export it again with this nmt-pipeline, or set search.alignments=none"
            )
        self._batch_tokens = batch_tokens

    def attention(self, source_BS: Ints, target_BT: Ints) -> Floats:
        """Return the attention of each position of the decoder's input (<s> first) to the source, [B, T, S]."""
        if self._stepwise:
            cross = self._stepwise.run(source_BS, target_BT).cross_attention
            assert cross is not None
            return cross[:, 0, 0]
        assert self._session
        [weights_BTS] = self._session.run([ALIGNMENT_OUTPUT], {"source": source_BS, "target": target_BT})
        attention: Floats = weights_BTS
        return attention

    def align(
        self, sources: Sequence[Sequence[int]], hypotheses_of_sources: Sequence[Sequence[Hypothesis]], skipped: int
    ) -> list[list[Hypothesis]]:
        """Return the same hypotheses with their links.

        Args:
            sources: ids of each source, as for a search.
            hypotheses_of_sources: hypotheses of each source.
            skipped: number of ids at the beginning of each source that are neither linked nor counted.
        """
        pairs = [
            (ids, one.ids) for ids, hypotheses in zip(sources, hypotheses_of_sources, strict=True) for one in hypotheses
        ]
        links = iter([links for group in self._groups(pairs) for links in self._links(group, skipped)])
        return [[replace(one, links=next(links)) for one in hypotheses] for hypotheses in hypotheses_of_sources]

    def _groups(self, pairs: Iterable[Ids]) -> Iterator[list[Ids]]:
        group: list[Ids] = []
        longest = 0
        for pair in pairs:
            longest = max(longest, len(pair[0]) + 1, len(pair[1]) + 1)
            if group and (len(group) + 1) * longest > self._batch_tokens:
                yield group
                group, longest = [], max(map(len, pair)) + 1
            group.append(pair)
        if group:
            yield group

    def _links(self, pairs: Sequence[Ids], skipped: int) -> list[Links]:
        source_BS = pad_sources([source for source, _ in pairs])
        target_BT = np.full((len(pairs), 1 + max(len(target) for _, target in pairs)), PAD_ID)
        for row, (_, target) in zip(target_BT, pairs, strict=True):
            row[: len(target) + 1] = [BOS_ID, *target]
        weights_BTS = self.attention(source_BS, target_BT)
        return [
            links_of(weights_TS[: len(target), skipped : len(source) + 1])
            for weights_TS, (source, target) in zip(weights_BTS, pairs, strict=True)
        ]


def links_of(weights_TS: Floats) -> Links:
    """Link each target position to the source position with the most attention, unless that is the end mark.

    Args:
        weights_TS: attention [T, S] of the steps that produce the target positions to the source positions and, last,
            the end mark.
    """
    if not weights_TS.size:
        return ()
    last = weights_TS.shape[1] - 1
    places = enumerate(weights_TS.argmax(axis=1).tolist())
    return tuple(sorted((source, target) for target, source in places if source != last))
