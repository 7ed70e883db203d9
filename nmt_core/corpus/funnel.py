"""Count the pairs by corpus and reason, sample the dropped ones, and measure lengths before and after.

Each shard has its own tally. Tallies add up, in any order, to the same report. Samples are drawn by a hash of a pair's
place, so they cover a whole corpus, not only its first lines, and are the same on every run.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from nmt_core.config.section import later
from nmt_core.stages.stage import StageReport

_SAMPLES_PER_REASON = 10
_SAMPLE_CHARACTERS = 200
_LANGUAGES_SHOWN = 10
_OTHER_LANGUAGES = "others"
_BLOCKS = 20

# Upper edges. The last bin is open. Lengths count characters because words are undefined in languages without spaces.
_LENGTH_EDGES = (10, 20, 40, 80, 160, 320, 640, 1_280)
_RATIO_EDGES = (0.25, 0.5, 0.67, 0.8, 1.0, 1.25, 1.5, 2.0, 4.0)

_DROPPED_COLUMNS = ("corpus", "line", "reason", "value", "source", "target")
_SCATTER = np.uint64(0x9E3779B97F4A7C15)  # odd: multiplication spreads adjacent places far apart


class DroppedPair(BaseModel):
    """A dropped pair, with its text truncated for display."""

    model_config = ConfigDict(frozen=True)
    reason: str
    value: str | None
    """Measurement that decided, such as the ratio, the held-out set, or the place of the copy that was kept."""
    corpus: str
    line: int
    source: str | None
    target: str | None


class FunnelRow(BaseModel):
    """Number of pairs of a corpus that one reason dropped."""

    model_config = ConfigDict(frozen=True)
    corpus: str
    reason: str
    """Reason, in filter order. The first row is "read" (pairs that came in), the last is "kept" (pairs left)."""
    pairs: int
    share: float
    """Share of the pairs that were read from this corpus."""
    pair: str = later("")
    """Pair of languages of the corpus, or both directions. Empty means the recipe's only pair."""


class HistogramRow(BaseModel):
    """Numbers of pairs in one range of a measure, among all pairs read and among the pairs kept."""

    model_config = ConfigDict(frozen=True)
    measure: str
    range: str
    before: int
    after: int
    picture: str
    """Bar of full blocks for kept pairs and light blocks for dropped pairs."""


class MonolingualReport(BaseModel):
    """Numbers of sentences of monolingual text, read, kept and dropped."""

    model_config = ConfigDict(frozen=True)
    items_in: int
    items_out: int
    dropped: dict[str, int]
    """Number of dropped sentences by reason, largest first. `items_in` = `items_out` + their sum."""
    held_out: dict[str, int]
    """Number of sentences dropped because they share text with a dev or test set, by set."""
    funnel: list[FunnelRow]
    samples: list[DroppedPair]


class CleanReport(StageReport):
    """Numbers of dropped pairs with their reasons, samples and histograms."""

    dropped: dict[str, int]
    """Number of dropped pairs by reason, largest first. `items_in` = `items_out` + their sum."""
    held_out: dict[str, int]
    """Number of pairs dropped because they share text with a dev or test set, by set."""
    skipped: dict[str, str]
    """Reasons why whole corpora were left out, by the name of the corpus."""
    notes: dict[str, str] = Field(default_factory=dict)
    """Facts about how the files of a corpus were read, such as the columns that were taken, by corpus."""
    repaired: int
    """Number of kept pairs in which entities or mojibake were repaired."""
    funnel: list[FunnelRow]
    source_languages: dict[str, int]
    """Languages identified on the source sides that reached that filter, most frequent first. Empty if it is off."""
    target_languages: dict[str, int]
    histograms: list[HistogramRow]
    samples: list[DroppedPair]
    """Ten samples of each reason, or all there are. The first sample of each reason precedes the second ones."""
    monolingual: MonolingualReport | None = None
    """Report on monolingual text. None means that the recipe has none."""

    def without_pairs(self) -> MonolingualReport:
        """Return the part of the report that monolingual text has."""
        return MonolingualReport.model_validate(self.model_dump(include=set(MonolingualReport.model_fields)))


@dataclass
class Histograms:
    """Counts of pairs in the length and ratio bins defined above."""

    source: np.ndarray = field(default_factory=lambda: np.zeros(len(_LENGTH_EDGES) + 1, np.int64))
    target: np.ndarray = field(default_factory=lambda: np.zeros(len(_LENGTH_EDGES) + 1, np.int64))
    ratio: np.ndarray = field(default_factory=lambda: np.zeros(len(_RATIO_EDGES) + 1, np.int64))

    @staticmethod
    def of(pairs: pl.DataFrame) -> "Histograms":
        """Measure the columns source and target. A pair with an empty or missing side has no ratio."""
        lengths = pairs.select(pl.col("source", "target").str.len_chars().fill_null(0)).to_numpy()
        both = lengths[(lengths > 0).all(axis=1)]
        return Histograms(
            _count(lengths[:, 0], _LENGTH_EDGES),
            _count(lengths[:, 1], _LENGTH_EDGES),
            _count(both[:, 1] / both[:, 0], _RATIO_EDGES),
        )

    def add(self, other: "Histograms") -> None:
        """Add the counts of another histogram."""
        self.source += other.source
        self.target += other.target
        self.ratio += other.ratio


@dataclass
class Tally:
    """Counts, histograms and samples of one shard, or of several."""

    read: Counter[str] = field(default_factory=Counter)
    """Number of pairs read, by corpus."""
    kept: Counter[str] = field(default_factory=Counter)
    dropped: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of dropped pairs, by corpus and reason."""
    held_out: Counter[str] = field(default_factory=Counter)
    source_languages: Counter[str] = field(default_factory=Counter)
    target_languages: Counter[str] = field(default_factory=Counter)
    source_refused: Counter[str] = field(default_factory=Counter)
    """Languages for which source sides were dropped."""
    target_refused: Counter[str] = field(default_factory=Counter)
    """Languages for which target sides were dropped."""
    looked_at: int = 0
    """Number of sampled pairs that were examined for swapped languages."""
    swapped: int = 0
    """Number of sampled pairs whose languages are swapped."""
    repaired: int = 0
    before: Histograms = field(default_factory=Histograms)
    after: Histograms = field(default_factory=Histograms)
    samples: dict[str, list[tuple[int, DroppedPair]]] = field(default_factory=dict)
    """Samples by reason, each with its rank in the draw, lowest rank first."""

    def drop(self, pairs: pl.DataFrame) -> None:
        """Count and sample dropped pairs (columns corpus, line, reason, value, source, target, place)."""
        counts = pairs.group_by("corpus", "reason").len()
        self.dropped.update({(corpus, reason): count for corpus, reason, count in counts.iter_rows()})
        ranked = pairs.with_columns(rank=pl.Series(pairs["place"].to_numpy() * _SCATTER))
        drawn = ranked.sort("rank").group_by("reason", maintain_order=True).head(_SAMPLES_PER_REASON)
        drawn = drawn.with_columns(pl.col("source", "target").str.head(_SAMPLE_CHARACTERS))
        for row in drawn.select(*_DROPPED_COLUMNS, "rank").iter_rows(named=True):
            rank = row.pop("rank")
            self._sample(row["reason"], [(rank, DroppedPair.model_validate(row))])

    def add(self, other: "Tally") -> None:
        """Add the counts and samples of another tally."""
        for name in (
            *("read", "kept", "dropped", "held_out"),
            *("source_languages", "target_languages", "source_refused", "target_refused"),
        ):
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

    def report(
        self,
        skipped: dict[str, str],
        order: Sequence[str],
        notes: dict[str, str] | None = None,
        pairs: Mapping[str, str] = MappingProxyType({}),
    ) -> CleanReport:
        """Return the report.

        Args:
            skipped: reason why a corpus was left out, by its name.
            order: reasons in the order of their filters, for the funnel.
            notes: facts about how a corpus was read, by its name.
            pairs: pair of languages of each corpus, by its name.
        """
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
            notes=notes or {},
            repaired=self.repaired,
            funnel=self._funnel(order, pairs),
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

    def _funnel(self, order: Sequence[str], pairs: Mapping[str, str]) -> list[FunnelRow]:
        rows = []
        position = {reason: number for number, reason in enumerate(order)}
        for corpus, read in self.read.items():
            taken = {reason: count for (name, reason), count in self.dropped.items() if name == corpus}
            steps = sorted(taken, key=lambda reason: (position.get(reason, -1), reason))
            counts = [("read", read), *((reason, taken[reason]) for reason in steps), ("kept", self.kept[corpus])]
            rows += [
                FunnelRow(
                    corpus=corpus,
                    reason=reason,
                    pairs=count,
                    share=round(count / read, 4),
                    pair=pairs.get(corpus, ""),
                )
                for reason, count in counts
            ]
        return rows


def _count(values: np.ndarray, edges: Sequence[float]) -> np.ndarray:
    """Count the values in each bin: a value belongs to the first bin whose upper edge exceeds it, or to the last."""
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
    """Return the counts in descending order. Equal counts are ordered by name."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _shown(languages: Counter[str]) -> dict[str, int]:
    """Return the most frequent languages by name, and the sum of all others."""
    ordered = _most_first(languages)
    shown = dict(list(ordered.items())[:_LANGUAGES_SHOWN])
    others = languages.total() - sum(shown.values())
    return shown | ({_OTHER_LANGUAGES: others} if others else {})
