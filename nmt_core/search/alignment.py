"""Which words of a translation belong to which words of its source, by the model's attention. Imports no torch.

A piece of the translation is linked to the piece of the source that the decoder attends to most at the step that says
it: the mean of all heads of its last two layers, which was the best of what was measured (`tests/bench/README.md`). A
piece that attends most to the mark at the end is linked to nothing. Words are linked where any of their pieces are.

Letters in names of arrays: B sentences, S source positions, T target positions.
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
"""Of a source and of its target, without marks."""

ALIGNMENT_FILE = "alignment.onnx"
ALIGNMENT_OUTPUT = "attention"
_BYTE = re.compile("<0x([0-9A-F]{2})>")
_CONTINUES = range(0x80, 0xC0)
"""Bytes of UTF-8 that begin no character."""


@dataclass(frozen=True)
class Alignment:
    """Links between the words of a line and those of its translation, or between their pieces."""

    links: Links = ()
    """(number in the source, number in the translation), from 0 and in rising order."""
    source: tuple[str, ...] = ()
    """Pieces of the source, if links are between pieces."""
    target: tuple[str, ...] = ()
    """Pieces of the translation."""

    @property
    def pharaoh(self) -> str:
        """The links as `0-0 1-2`."""
        return " ".join(f"{source}-{target}" for source, target in self.links)

    def of_words(self, source: str, target: str) -> "Alignment":
        """Links between words, as `str.split` finds them in these texts, from links between their pieces."""
        of_source, of_target = words_of_pieces(self.source, source), words_of_pieces(self.target, target)
        if not source.split() or not target.split():
            return Alignment()
        return Alignment(tuple(sorted({(of_source[one], of_target[other]) for one, other in self.links})))


def joined(parts: Iterable[Alignment]) -> Alignment:
    """The alignment between pieces of a line from those of its parts, in their order."""
    links, source, target = list[tuple[int, int]](), list[str](), list[str]()
    for part in parts:
        links += [(one + len(source), other + len(target)) for one, other in part.links]
        source += part.source
        target += part.target
    return Alignment(tuple(links), tuple(source), tuple(target))


def words_of_pieces(pieces: Sequence[str], text: str) -> list[int]:
    """The number of the word of a text to which each of its pieces belongs.

    Pieces say by a mark where a word begins. Where these are not the words of the text, as after a tokeniser that cuts
    at more places, characters are counted instead; in a text that was changed on its way, the result is approximate.
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
        for place in np.flatnonzero((sizes == 0) & (marks == 0)).tolist():  # it goes on with the character before it
            numbers[place] = numbers[max(place - 1, 0)]
    found: list[int] = numbers.tolist()
    return found


def _size(text: str) -> int:
    """Characters that can be seen of a piece or word, however composed; a byte that goes on with one is none."""
    if byte := _BYTE.fullmatch(text):
        return int(byte[1], 16) not in _CONTINUES
    if text == "<unk>":
        return 1
    seen = unicodedata.normalize("NFKC", text.replace(SPACE_MARK, ""))
    return sum(unicodedata.category(character)[0] not in "CZ" for character in seen)


class Aligner:
    """The graph of one model. Threads may share it.

    Args:
        folder: of the set of graphs in fp32: `<bundle>/fp32`.
        batch_tokens: positions that are computed together on either side, padding included.
        device: where to compute.

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
                f"{folder / ALIGNMENT_FILE}: missing: the bundle was exported before there were alignments, or its "
                "model has no attention: export it again with this nmt-pipeline, or set search.alignments=none"
            )
        self._batch_tokens = batch_tokens

    def attention(self, source_BS: Ints, target_BT: Ints) -> Floats:
        """How much each position of the decoder's input, <s> first, takes of each source position: [B, T, S]."""
        if self._stepwise:
            cross = self._stepwise.run(source_BS, target_BT).cross_attention
            assert cross is not None
            return cross[:, 0, 0]
        assert self._session
        [weights_BTS] = self._session.run([ALIGNMENT_OUTPUT], {"source": source_BS, "target": target_BT})
        found: Floats = weights_BTS
        return found

    def align(
        self, sources: Sequence[Sequence[int]], found: Sequence[Sequence[Hypothesis]], skipped: int
    ) -> list[list[Hypothesis]]:
        """The same hypotheses with their links.

        Args:
            sources: ids of each source, as for a search.
            found: hypotheses of each source.
            skipped: ids at the beginning of each source to which nothing is linked, and which are not counted.
        """
        pairs = [(ids, one.ids) for ids, hypotheses in zip(sources, found, strict=True) for one in hypotheses]
        links = iter([links for group in self._groups(pairs) for links in self._links(group, skipped)])
        return [[replace(one, links=next(links)) for one in hypotheses] for hypotheses in found]

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
    """Each target position with the source position that it takes most of, unless that is the mark at the end.

    Args:
        weights_TS: attention [T, S] of the steps that say the target positions to those of the source and, last, the
            mark.
    """
    if not weights_TS.size:
        return ()
    last = weights_TS.shape[1] - 1
    places = enumerate(weights_TS.argmax(axis=1).tolist())
    return tuple(sorted((source, target) for target, source in places if source != last))
