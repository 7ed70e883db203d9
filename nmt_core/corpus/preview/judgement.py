"""Apply every filter to every pair of a sample, whatever the other filters say, and measure what thresholds measure."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import polars as pl

from nmt_core.config import CROSS_ENTROPY_DIFFERENCE, SIDES, CleanConfig, FilterConfig, LanguagesConfig, PipelineConfig
from nmt_core.corpus import normalize, reading
from nmt_core.corpus.cleaning import cross_entropy, filters
from nmt_core.corpus.cleaning.filters import Filter, word_lists
from nmt_core.corpus.cleaning.filters.base import Scale
from nmt_core.corpus.cleaning.thresholds import CleanRules, rules_for
from nmt_core.corpus.held_out import decontaminate
from nmt_core.corpus.index import CorpusIndex
from nmt_core.spelling import Spelling
from nmt_core.store import storage
from nmt_core.store.artifacts import Artifact

_LARGEST = 1e9  # takes the place of infinity, which JSON does not have
_DIGITS = 3


@dataclass
class Judged:
    """Verdict of one filter on every pair of the sample."""

    reason: str
    remedy: str
    """Option that controls the filter, as a dotted key of the recipe, or advice."""
    is_on: bool
    """True if the recipe applies the filter."""
    drops: list[bool] = field(default_factory=list)
    """True for each pair that the filter drops by the recipe's thresholds."""
    values: list[str | None] = field(default_factory=list)
    """Measurement that decided, for each pair that is dropped."""
    option: str = ""
    """Option of `clean` that holds the threshold. Empty means that the filter is only on or off."""
    is_minimum: bool = False
    measures: dict[str, list[float | None]] = field(default_factory=dict)
    """Measure of each pair, by side, or under the name `pair`."""
    limits: dict[str, list[float]] = field(default_factory=dict)
    """Threshold of each corpus, by side, in the order of the corpora."""


@dataclass(frozen=True)
class Preview:
    """Sample of the text, and the verdict of every filter on it."""

    pairs: pl.DataFrame
    """Columns corpus, line, source, target (normalised), fault."""
    corpora: tuple[str, ...]
    read: Mapping[str, int]
    """Number of pairs that were read to draw the sample, by corpus."""
    languages: LanguagesConfig
    filters: list[Judged]
    notes: list[str]
    """Parts of the recipe that the preview does not show."""

    @property
    def kept(self) -> int:
        """Number of pairs that the recipe keeps."""
        dropped = self.pairs["fault"].is_not_null()
        for one in self.filters:
            if one.is_on:
                dropped |= pl.Series(one.drops, dtype=pl.Boolean)
        return self.pairs.height - int(dropped.sum())


def judge(config: PipelineConfig, download: Artifact, pairs: pl.DataFrame, read: Mapping[str, int]) -> Preview:
    """Judge a sample of pairs, as `sample.draw` returns it.

    Raises:
        ConfigError: a word list cannot be read, or an external function cannot be loaded.
    """
    clean, notes = _without_selection(config.clean)
    corpora = tuple(dict.fromkeys(pairs["corpus"].to_list()))
    languages_in = {one.name: one.languages_in(config.languages) for one in CorpusIndex.of(download).corpora}
    by_reason: dict[str, Judged] = {}
    tables = []
    with _placed_lists(clean, config.languages) as lists:
        for name in corpora:
            languages = languages_in[name]
            rules = replace(rules_for(clean, languages, name), word_lists=lists)
            table = _normalised(pairs.filter(corpus=name), rules)
            tables.append(table)
            for one in [*_judged(table, rules), *_held_out(table, config, download, languages)]:
                known = by_reason.setdefault(one.reason, one)
                if known is not one:
                    _append(known, one)
    text = pl.concat(tables).select("corpus", "line", "source", "target", "fault")
    return Preview(text, corpora, read, config.languages, list(by_reason.values()), notes)


@contextmanager
def _placed_lists(clean: CleanConfig, languages: LanguagesConfig) -> Iterator[dict[str, str]]:
    """Write the word lists to files, where the filters read them, and yield their addresses."""
    with tempfile.TemporaryDirectory() as folder:
        placed = {}
        for side, phrases in word_lists.read(clean, languages).items():
            placed[side] = f"{folder}/{side}.parquet"
            storage.write(phrases, placed[side])
        yield placed


def _without_selection(clean: CleanConfig) -> tuple[CleanConfig, list[str]]:
    """Return the section without scores that must first be learned from all text, with a note about them."""
    kept = tuple(rule for rule in clean.scores if not cross_entropy.is_built_in(rule))
    notes = [
        "Copies are found in the whole text only: `deduplicate`, `near_duplicates` and `max_per_...` are not shown."
    ]
    if len(kept) < len(clean.scores):
        notes.append(f"The score {CROSS_ENTROPY_DIFFERENCE} is learned from the whole text, and is not shown.")
    return clean.model_copy(update={"scores": kept, "prefer": "first"}), notes


def _normalised(pairs: pl.DataFrame, rules: CleanRules) -> pl.DataFrame:
    text = [normalize.normalised(pl.col(side), *Spelling.of(rules.clean, code)) for side, code in rules.codes.items()]
    keys = [normalize.key(pl.col(side)).alias(f"{side}_key") for side in SIDES]
    return pairs.lazy().with_columns(text).with_columns(keys).collect()


def _all_on(thresholds: FilterConfig) -> FilterConfig:
    """Return the thresholds with every filter switched on, so that the preview shows what it would do."""
    switches = {name: True for name, value in thresholds.model_dump().items() if value is False}
    defaults = {name: option.default for name, option in FilterConfig.model_fields.items()}
    zeros = ("min_language_probability", "max_repeated_characters", "max_repeated_words")
    off = {name: defaults[name] for name in zeros if not getattr(thresholds, name)}
    if thresholds.max_copied_share >= 1:
        off["max_copied_share"] = defaults["max_copied_share"]
    return thresholds.model_copy(update=switches | off)


def _judged(table: pl.DataFrame, rules: CleanRules) -> list[Judged]:
    active = filters.remedies(rules)
    verdicts = []
    all_on = replace(rules, thresholds=_all_on(rules.thresholds))
    for step in filters.steps(all_on):
        measured = table.lazy()
        for measure in step.measures:
            measured = measured.with_columns(measure)
        rows = measured.collect()
        verdicts += [_one(rule, rows, is_on=rule.reason in active) for rule in step.filters]
    return verdicts


def _one(rule: Filter, rows: pl.DataFrame, *, is_on: bool) -> Judged:
    decided = rows.select(drop=rule.drop.fill_null(value=False) & pl.col("fault").is_null())["drop"]
    values = pl.repeat(None, rows.height, dtype=pl.String, eager=True)
    if decided.any():  # polars 2.1 fails on some expressions over an empty table, and over the view that filter returns
        dropped = rows[decided.arg_true()].select(value=rule.value.cast(pl.String))["value"]
        values = values.scatter(decided.arg_true(), dropped)
    judged = Judged(rule.reason, rule.remedy, is_on, decided.to_list(), values.to_list())
    if scale := rule.scale:
        judged.option, judged.is_minimum = scale.option, scale.is_minimum
        judged.measures = {name: _numbers(rows, scale, name) for name in scale.values}
        judged.limits = {name: [float(scale.limits[name])] for name in scale.values}
    return judged


def _numbers(rows: pl.DataFrame, scale: Scale, name: str) -> list[float | None]:
    value = scale.values[name].cast(pl.Float64).fill_nan(None).clip(-_LARGEST, _LARGEST).round(_DIGITS)
    return rows.select(value=pl.when(pl.col("fault").is_null()).then(value))["value"].to_list()


def _held_out(
    table: pl.DataFrame, config: PipelineConfig, download: Artifact, languages: LanguagesConfig
) -> list[Judged]:
    """Return the verdict of the comparison with dev and test sets, if there are any."""
    sets = {
        f"{role}/{name}": pairs
        for role in ("dev", "test")
        for name, pairs in reading.held_out_sets(download, role, config.languages).items()
    }
    if not sets:
        return []
    index = CorpusIndex.of(download)
    of_sets = {f"{one.role}/{one.name}": one.languages_in(config.languages) for one in index.corpora}
    many = of_sets if config.languages.pairs else None
    leaks = decontaminate.HeldOut(sets, config.clean, languages, many).find(table)
    drops = leaks.is_not_null() & table["fault"].is_null()
    is_on = config.clean.decontaminate
    return [Judged(decontaminate.REASON, decontaminate.REMEDY, is_on, drops.to_list(), leaks.to_list())]


def _append(known: Judged, other: Judged) -> None:
    """Add the verdicts on the next corpus. With everything switched on, each corpus has the same filters."""
    known.is_on = known.is_on or other.is_on
    known.drops += other.drops
    known.values += other.values
    for name, numbers in other.measures.items():
        known.measures[name] += numbers
        known.limits[name] += other.limits[name]
