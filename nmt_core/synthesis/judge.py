"""Judge translations shard by shard: choose one of each sentence, and drop faulty ones and leaks.

Any worker may process a shard, more than once.
"""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from nmt_core.config import OTHER_SIDE, CleanConfig, LanguagesConfig, SyntheticPart
from nmt_core.corpus import normalize
from nmt_core.corpus.held_out import decontaminate
from nmt_core.corpus.joining import FROM, leaks
from nmt_core.corpus.shard import DROPPED_COLUMNS, ROW_GROUP_PAIRS, train_columns
from nmt_core.corpus.split import token_of_pair
from nmt_core.errors import StageError
from nmt_core.jobs.checks import FAULTS, checker_for
from nmt_core.scoring import most_similar
from nmt_core.search.translation import WHOLE
from nmt_core.spelling import Spelling
from nmt_core.store import storage

PROVENANCE = (*FROM, "teacher", "score")
"""Columns of synthetic text that other training text lacks: its origin, the teacher, and the score of its search."""

_SAMPLES = 2
_METRICS = {"bleu": "BLEU", "chrf": "chrF"}
_OPEN = WHOLE | {*FAULTS}
"""Statuses that depend on the chosen translation. The others depend on the sentence."""


@dataclass(frozen=True)
class MadeShard:
    """Translated sentences of one part by one teacher, with the rules by which they are judged."""

    part: SyntheticPart
    text: str
    """File of the sentences, see `texts.COLUMNS`."""
    made: str
    """File of their translations, from the job of the teacher."""
    kept: str
    """File to write the pairs that are kept."""
    dropped: str
    """File to write the dropped pairs."""
    split: str
    """Folder with the dev and test text."""
    teacher: str
    own: LanguagesConfig
    """Languages of the teacher."""
    rules: CleanConfig
    languages: LanguagesConfig
    """Languages of the recipe."""

    @property
    def of_pair(self) -> LanguagesConfig:
        """Source and target language of the part."""
        return self.languages.of(self.part.pair)


@dataclass
class Judged:
    """Counts and samples of one shard, or of many."""

    translated: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    leaked: Counter[str] = field(default_factory=Counter)
    """Dropped pairs that share text with a held-out set, by the name of the set."""
    samples: list[dict[str, str]] = field(default_factory=list)

    def add(self, other: "Judged") -> None:
        """Add the counts of another shard."""
        self.translated += other.translated
        self.dropped.update(other.dropped)
        self.leaked.update(other.leaked)
        self.samples += other.samples


def judge_shard(shard: MadeShard) -> Judged:
    """Write the pairs of a shard that are kept, and those that are dropped, each with its reason.

    Raises:
        StageError: the translations are not of these sentences.
    """
    pairs = _pairs(shard)
    rejected = pl.col("status").is_in(shard.part.drop)
    faulty, passed = pairs.filter(rejected), pairs.filter(~rejected)
    passed = passed.with_columns(_tidied(shard))
    is_empty = pl.col(OTHER_SIDE[shard.part.side]) == ""
    blank, passed = passed.filter(is_empty), passed.filter(~is_empty)
    found = leaks(passed, shard.split, shard.rules, shard.of_pair)
    reasons = [
        faulty.with_columns(reason="status", value=pl.lit(None, pl.String)),
        blank.with_columns(reason=pl.lit("empty"), value=pl.lit(None, pl.String)),
        passed.with_columns(reason=pl.lit(decontaminate.REASON), value=found).filter(found.is_not_null()),
    ]
    dropped = pl.concat([rows.select(DROPPED_COLUMNS) for rows in reasons])
    kept = passed.filter(found.is_null())
    storage.write(kept.select(*train_columns(shard.languages), *PROVENANCE), shard.kept)
    storage.write(dropped, shard.dropped, row_group_pairs=ROW_GROUP_PAIRS)
    leaked = dropped.filter(reason=decontaminate.REASON)
    samples = kept.head(_SAMPLES).select(part="corpus", source="source", target="target")
    return Judged(pairs.height, _counts(dropped["reason"]), _counts(leaked["value"]), samples.to_dicts())


def _pairs(shard: MadeShard) -> pl.DataFrame:
    """Return the sentences with their translations, each on its side, and the status of each translation."""
    text, made = storage.read(shard.text), storage.read(shard.made)
    if text.height != made.height or not text["text"].equals(made["source"]):
        raise StageError(
            f"{shard.made}: has other sentences than {shard.text}, so one of them was changed after the translation: "
            f"move the folder {Path(shard.text).parents[2]} away, then run the same command again, which translates "
            "this part again"
        )
    if shard.part.choose != "first":
        made = _chosen(text, made, shard)
    part = shard.part
    columns = {part.side: text["text"], OTHER_SIDE[part.side]: made["translation"]}
    pairs = text.with_columns(**columns, status=made["status"], score=made["score"]).with_columns(
        corpus=pl.lit(part.name), teacher=pl.lit(shard.teacher)
    )
    return (
        pairs.with_columns(pair=pl.lit(part.pair)).with_columns(token_of_pair(shard.languages)) if part.pair else pairs
    )


def _chosen(text: pl.DataFrame, made: pl.DataFrame, shard: MadeShard) -> pl.DataFrame:
    """Replace each translation by the one that is most similar to the reference (Kim and Rush 2016, section 3.3)."""
    metric, sources = _METRICS[shard.part.choose], text["text"].to_list()
    found, scores = [], []
    for reference, row in zip(text["reference"], made.iter_rows(named=True), strict=True):
        choices = [row, *(row["alternatives"] or ())]
        texts = [choice["translation"] for choice in choices]
        best = most_similar("BLEU" if metric == "BLEU" else "chrF", texts, reference, shard.own.target)
        found.append(texts[best])
        scores.append(choices[best]["score"])
    faults = checker_for(shard.own).faults(sources, found)
    statuses = [
        (fault or "ok") if status in _OPEN else status for fault, status in zip(faults, made["status"], strict=True)
    ]
    return made.with_columns(
        translation=pl.Series(found, dtype=pl.String),
        status=pl.Series(statuses, dtype=pl.String),
        score=pl.Series(scores, dtype=pl.Float64),
    )


def _tidied(shard: MadeShard) -> list[pl.Expr]:
    """Write the translations as `clean` writes training text."""
    side = OTHER_SIDE[shard.part.side]
    spelling = Spelling.of(shard.rules, getattr(shard.of_pair, side))
    return [normalize.normalised(pl.col(side), *spelling)]


def _counts(values: pl.Series) -> Counter[str]:
    return Counter(dict(values.value_counts(name="count").iter_rows()))
