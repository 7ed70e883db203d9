"""What became of the pairs: counted by corpus and reason, sampled, and measured before and after.

Each shard is tallied by itself; tallies add up, in any order, to the same report. Samples are drawn by a hash of a
pair's place, so that they show all of a corpus and not its first lines, and are the same on every run.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict

from nmt_core.stages.stage import StageReport

_SAMPLES_PER_REASON = 10
_SAMPLE_CHARACTERS = 200
_LANGUAGES_SHOWN = 10
_OTHER_LANGUAGES = "others"
_BLOCKS = 20

# Upper edges, the last bin being open. Characters, not words: they mean the same in a language without spaces.
_LENGTH_EDGES = (10, 20, 40, 80, 160, 320, 640, 1_280)
_RATIO_EDGES = (0.25, 0.5, 0.67, 0.8, 1.0, 1.25, 1.5, 2.0, 4.0)

_DROPPED_COLUMNS = ("corpus", "line", "reason", "value", "source", "target")
_SCATTER = np.uint64(0x9E3779B97F4A7C15)  # odd: multiplied by it, neighbouring places lie far apart


class DroppedPair(BaseModel):
    """A dropped pair, its text cut to a length that one can look at."""

    model_config = ConfigDict(frozen=True)
    reason: str
    value: str | None
    """The measure that decided, such as the ratio, the held-out set, or where the copy stands that was kept."""
    corpus: str
    line: int
    source: str | None
    target: str | None


class FunnelRow(BaseModel):
    """How many pairs of a corpus one reason took."""

    model_config = ConfigDict(frozen=True)
    corpus: str
    reason: str
    """"read" for what came in, "kept" for what was left; between them the reasons, in the order of their filters."""
    pairs: int
    share: float
    """Of the pairs that were read of this corpus."""


class HistogramRow(BaseModel):
    """Pairs by a measure, among all that were read and among those that were kept."""

    model_config = ConfigDict(frozen=True)
    measure: str
    range: str
    before: int
    after: int
    picture: str
    """Full blocks for what was kept, light ones for what was dropped."""


class CleanReport(StageReport):
    """What was dropped, why, and what it looked like."""

    dropped: dict[str, int]
    """Pairs by reason, most first; `items_in` = `items_out` + their sum."""
    held_out: dict[str, int]
    """Pairs dropped because they share text with a dev or test set, by set."""
    skipped: dict[str, str]
    """Corpora that were left out whole, and why."""
    repaired: int
    """Pairs that were kept and in which entities or mojibake were repaired."""
    funnel: list[FunnelRow]
    source_languages: dict[str, int]
    """Identified languages of the source sides that reached that filter, most first; empty if it is off."""
    target_languages: dict[str, int]
    histograms: list[HistogramRow]
    samples: list[DroppedPair]
    """Ten of each reason, or all there are; the first of each come first."""


@dataclass
class Histograms:
    """Counts in the bins of the edges above."""

    source: np.ndarray = field(default_factory=lambda: np.zeros(len(_LENGTH_EDGES) + 1, np.int64))
    target: np.ndarray = field(default_factory=lambda: np.zeros(len(_LENGTH_EDGES) + 1, np.int64))
    ratio: np.ndarray = field(default_factory=lambda: np.zeros(len(_RATIO_EDGES) + 1, np.int64))

    @staticmethod
    def of(pairs: pl.DataFrame) -> "Histograms":
        """Measure the columns source and target; a pair with a side that is empty or missing has no ratio."""
        lengths = pairs.select(pl.col("source", "target").str.len_chars().fill_null(0)).to_numpy()
        both = lengths[(lengths > 0).all(axis=1)]
        return Histograms(
            _count(lengths[:, 0], _LENGTH_EDGES),
            _count(lengths[:, 1], _LENGTH_EDGES),
            _count(both[:, 1] / both[:, 0], _RATIO_EDGES),
        )

    def add(self, other: "Histograms") -> None:
        """Count the other's pairs as well."""
        self.source += other.source
        self.target += other.target
        self.ratio += other.ratio


@dataclass
class Tally:
    """What one shard, or many of them, came to."""

    read: Counter[str] = field(default_factory=Counter)
    """Pairs by corpus."""
    kept: Counter[str] = field(default_factory=Counter)
    dropped: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Pairs by corpus and reason."""
    held_out: Counter[str] = field(default_factory=Counter)
    source_languages: Counter[str] = field(default_factory=Counter)
    target_languages: Counter[str] = field(default_factory=Counter)
    looked_at: int = 0
    """Pairs of a sample."""
    swapped: int = 0
    """Those of the sample of which each side is in the other's language."""
    repaired: int = 0
    before: Histograms = field(default_factory=Histograms)
    after: Histograms = field(default_factory=Histograms)
    samples: dict[str, list[tuple[int, DroppedPair]]] = field(default_factory=dict)
    """By reason, each with its rank in the draw, the lowest first."""

    def drop(self, pairs: pl.DataFrame) -> None:
        """Count and sample dropped pairs: columns corpus, line, reason, value, source, target, place."""
        counts = pairs.group_by("corpus", "reason").len()
        self.dropped.update({(corpus, reason): count for corpus, reason, count in counts.iter_rows()})
        ranked = pairs.with_columns(rank=pl.Series(pairs["place"].to_numpy() * _SCATTER))
        drawn = ranked.sort("rank").group_by("reason", maintain_order=True).head(_SAMPLES_PER_REASON)
        drawn = drawn.with_columns(pl.col("source", "target").str.head(_SAMPLE_CHARACTERS))
        for row in drawn.select(*_DROPPED_COLUMNS, "rank").iter_rows(named=True):
            rank = row.pop("rank")
            self._sample(row["reason"], [(rank, DroppedPair.model_validate(row))])

    def add(self, other: "Tally") -> None:
        """Count the other's pairs as well."""
        for name in ("read", "kept", "dropped", "held_out", "source_languages", "target_languages"):
            getattr(self, name).update(getattr(other, name))
        self.looked_at += other.looked_at
        self.swapped += other.swapped
        self.repaired += other.repaired
        self.before.add(other.before)
        self.after.add(other.after)
        for reason, samples in other.samples.items():
            self._sample(reason, samples)

    def _sample(self, reason: str, samples: Iterable[tuple[int, DroppedPair]]) -> None:
        both = [*self.samples.get(reason, []), *samples]
        self.samples[reason] = sorted(both, key=lambda ranked: ranked[0])[:_SAMPLES_PER_REASON]

    def report(self, skipped: dict[str, str], order: Sequence[str]) -> CleanReport:
        """The whole; `order` is that of the reasons as they are asked, for the funnel."""
        reasons: Counter[str] = Counter()
        for (_, reason), count in self.dropped.items():
            reasons[reason] += count
        turns = range(_SAMPLES_PER_REASON)
        return CleanReport(
            items_in=self.read.total(),
            items_out=self.kept.total(),
            unit="pairs",
            dropped=_most_first(reasons),
            held_out=_most_first(self.held_out),
            skipped=skipped,
            repaired=self.repaired,
            funnel=self._funnel(order),
            source_languages=_shown(self.source_languages),
            target_languages=_shown(self.target_languages),
            histograms=[
                *_rows("source characters", _LENGTH_EDGES, self.before.source, self.after.source),
                *_rows("target characters", _LENGTH_EDGES, self.before.target, self.after.target),
                *_rows("target / source characters", _RATIO_EDGES, self.before.ratio, self.after.ratio),
            ],
            samples=[
                self.samples[reason][turn][1]
                for turn in turns
                for reason in _most_first(reasons)
                if turn < len(self.samples[reason])
            ],
        )

    def _funnel(self, order: Sequence[str]) -> list[FunnelRow]:
        rows = []
        position = {reason: number for number, reason in enumerate(order)}
        for corpus, read in self.read.items():
            taken = {reason: count for (name, reason), count in self.dropped.items() if name == corpus}
            steps = sorted(taken, key=lambda reason: (position.get(reason, -1), reason))
            counts = [("read", read), *((reason, taken[reason]) for reason in steps), ("kept", self.kept[corpus])]
            rows += [
                FunnelRow(corpus=corpus, reason=reason, pairs=count, share=round(count / read, 4))
                for reason, count in counts
            ]
        return rows


def _count(values: np.ndarray, edges: Sequence[float]) -> np.ndarray:
    """Values below each edge and not below the one before it, and those that are below none."""
    return np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1).astype(np.int64)


def _rows(measure: str, edges: Sequence[float], before: np.ndarray, after: np.ndarray) -> list[HistogramRow]:
    names = [f"under {edges[0]:,}", *(f"{low:,} to {high:,}" for low, high in pairwise(edges))]
    names.append(f"{edges[-1]:,} and more")
    scale = _BLOCKS / max(1, before.max(), after.max())
    rows = []
    for name, read, kept in zip(names, before.tolist(), after.tolist(), strict=True):
        full, all_blocks = round(kept * scale), round(max(read, kept) * scale)
        picture = "█" * full + "░" * (all_blocks - full)
        rows.append(HistogramRow(measure=measure, range=name, before=read, after=kept, picture=picture))
    return rows


def _most_first(counts: Counter[str]) -> dict[str, int]:
    """Equal counts by name."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _shown(languages: Counter[str]) -> dict[str, int]:
    """The most frequent ones by name, the others together."""
    ordered = _most_first(languages)
    shown = dict(list(ordered.items())[:_LANGUAGES_SHOWN])
    others = languages.total() - sum(shown.values())
    return shown | ({_OTHER_LANGUAGES: others} if others else {})
