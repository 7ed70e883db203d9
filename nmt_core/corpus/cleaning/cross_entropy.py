"""Compute the score `cross-entropy-difference`: how much closer a pair is to the text of a domain than to all text.

For each side, one language model learns from text of the domain, and another one from the same amount of all training
text. A pair's score is its cross-entropy under the general model minus its cross-entropy under the domain model, in
nats per word, summed over both sides (Moore and Lewis 2010; Axelrod et al. 2011, section 4.1). The sign is reversed so
that more is better, as for any score. Pairs above 0 are closer to the domain than to the rest.

The vocabulary of a side is the words that occur at least twice in its text of the domain. Both models treat all other
words as one word. In scripts without spaces each character counts as a word. So it does in Hangul, whose words have an
unlimited number of endings.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from nmt_core.config import CROSS_ENTROPY_DIFFERENCE, SIDES, CleanConfig, LanguagesConfig, PipelineConfig, ScoreRule
from nmt_core.corpus import normalize, reading
from nmt_core.corpus.cleaning.ngrams import LanguageModel, Sentences, frequent
from nmt_core.corpus.cleaning.scorers import External
from nmt_core.corpus.index import CorpusIndex
from nmt_core.errors import DataError
from nmt_core.spelling import Spelling
from nmt_core.store import storage
from nmt_core.store.artifacts import Artifact

_ORDER = 3
_COMES_OFTEN = 2
_CHUNK_PAIRS = 50_000  # scored at once, which takes about 100 MB
_SEED = 1

_ONE_BY_ONE = r"\p{Han}\p{Hiragana}\p{Katakana}ー\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}"
_WORD = rf"[{_ONE_BY_ONE}]|[[\p{{L}}\p{{M}}\p{{N}}]--[{_ONE_BY_ONE}]]+|[^\s\p{{L}}\p{{M}}\p{{N}}]"


def is_built_in(rule: ScoreRule) -> bool:
    """Return True if a rule requests this score."""
    return rule.scorer == CROSS_ENTROPY_DIFFERENCE and not rule.command


def words_of(text: pl.Series) -> pl.Series:
    """Return the list of words of each sentence in lower case, punctuation marks included."""
    return text.str.to_lowercase().str.extract_all(_WORD)


@dataclass(frozen=True)
class _Side:
    """Language models of one language."""

    vocabulary: pl.Series
    in_domain: LanguageModel
    general: LanguageModel

    @classmethod
    def learn(cls, in_domain: pl.Series, general: pl.Series) -> "_Side":
        words = words_of(in_domain)
        vocabulary = frequent([words], _COMES_OFTEN)
        size = len(vocabulary) + 2  # <unk> and the end of the sentence
        models = [
            LanguageModel.learn(Sentences.of(text, vocabulary, _ORDER), size) for text in (words, words_of(general))
        ]
        return cls(vocabulary, models[0], models[1])

    def difference(self, text: pl.Series) -> np.ndarray:
        """Return the cross-entropy difference of each sentence, in nats per word."""
        sentences = Sentences.of(words_of(text), self.vocabulary, _ORDER)
        difference: np.ndarray = self.general.cross_entropy(sentences) - self.in_domain.cross_entropy(sentences)
        return difference


@dataclass(frozen=True)
class Selection:
    """Language models of both languages."""

    sides: Mapping[str, _Side]

    @classmethod
    def learn(cls, in_domain: pl.DataFrame, general: pl.DataFrame) -> "Selection":
        """Learn from pairs of the domain and about as many pairs of all text (normalised columns source and target)."""
        return cls({side: _Side.learn(in_domain[side], general[side]) for side in SIDES})

    def score(self, pairs: pl.DataFrame) -> pl.Series:
        """Return the score of each pair. A higher score is closer to the domain."""
        parts = pairs.iter_slices(_CHUNK_PAIRS) if pairs.height else ()
        sums = [sum((self.sides[side].difference(part[side]) for side in SIDES), np.zeros(1)) for part in parts]
        return pl.Series(np.concatenate([np.zeros(0), *sums]))

    def to_frame(self) -> pl.DataFrame:
        """Return the models as one table for storage."""
        tables = []
        for name, side in self.sides.items():
            parts = {"words": side.vocabulary.to_frame("word"), "in": side.in_domain.grams, "all": side.general.grams}
            tables += [table.with_columns(side=pl.lit(name), part=pl.lit(part)) for part, table in parts.items()]
        return pl.concat(tables, how="diagonal")

    @classmethod
    def from_frame(cls, table: pl.DataFrame) -> "Selection":
        """Restore the models from a table made by `to_frame`."""
        sides: dict[str, _Side] = {}
        for name in SIDES:
            own = {str(part): rows for (part,), rows in table.filter(side=name).group_by("part", maintain_order=True)}
            vocabulary = own["words"]["word"] if "words" in own else pl.Series("word", [], pl.String)
            models = [
                LanguageModel(own[part].select("order", "key", "share", "left"), len(vocabulary) + 2)
                for part in ("in", "all")
            ]
            sides[name] = _Side(vocabulary, models[0], models[1])
        return cls(sides)


def scorer(models: str) -> External:
    """Return a function that scores pairs by stored models. It reads the models on its first call."""
    return lambda pairs: _read(models).score(pairs)


@functools.lru_cache(maxsize=2)
def _read(models: str) -> Selection:
    """Read the models. Cached, because a worker scores many shards with the same models."""
    return Selection.from_frame(storage.read(models))


def learn(config: PipelineConfig, download: Artifact) -> tuple[Selection, int]:
    """Learn from the text of `clean.in_domain` and from the same number of pairs drawn from all training text.

    Returns:
        The models, and the number of pairs of the domain that they learnt from.

    Raises:
        DataError: the text of the domain cannot be read or is empty. Also if other text cannot be read and
            `corpus.on_bad_corpus` is `fail`.
    """
    index, clean, languages = CorpusIndex.of(download), config.clean, config.languages
    corpora = {corpus.name: corpus for corpus in index.corpora if corpus.role == "train"}
    if clean.in_domain in index.skipped:
        raise DataError(
            f"clean.in_domain={clean.in_domain!r}: left out ({index.skipped[clean.in_domain]}), so there "
            "is no text of the domain to learn from: repair it and run with --force download, or name another corpus"
        )
    if clean.in_domain in corpora:
        rows = reading.rows(download, corpora[clean.in_domain], languages, clean.max_line_bytes)
    else:
        rows = iter([reading.held_out_sets(download, "dev", languages)[clean.in_domain]])
    in_domain = _draw(_sound(rows, clean, languages), clean.in_domain_pairs)
    if in_domain.is_empty():
        raise DataError(f"clean.in_domain={clean.in_domain!r}: holds no pair to learn from: name another corpus")
    general = _draw(_everything(config, download, index), in_domain.height)
    return Selection.learn(in_domain, general), in_domain.height


def _everything(config: PipelineConfig, download: Artifact, index: CorpusIndex) -> Iterator[pl.DataFrame]:
    for corpus in index.corpora:
        if corpus.role == "train" and corpus.name not in index.skipped:
            try:
                rows = reading.rows(download, corpus, config.languages, config.clean.max_line_bytes)
                yield from _sound(rows, config.clean, config.languages)
            except DataError:
                if index.on_bad_corpus == "fail":
                    raise  # otherwise the corpus is left out, and `clean` reports it


def _sound(rows: Iterable[pl.DataFrame], clean: CleanConfig, languages: LanguagesConfig) -> Iterator[pl.DataFrame]:
    """Yield the pairs without a fault, normalised in the same way as the pairs to score."""
    for table in rows:
        sound = table.filter(pl.col("fault").is_null()) if "fault" in table.columns else table
        yield sound.select(
            normalize.normalised(pl.col(side).fill_null(""), *Spelling.of(clean, getattr(languages, side)))
            for side in SIDES
        ).filter(pl.all_horizontal(pl.col(SIDES) != ""))


def _draw(tables: Iterable[pl.DataFrame], pairs: int) -> pl.DataFrame:
    """Return a random sample of `pairs` rows, or all rows: each row has a random number, and the lowest are kept."""
    draw = np.random.default_rng(_SEED)
    drawn = pl.DataFrame(schema={"source": pl.String, "target": pl.String, "draw": pl.Float64})
    for table in tables:
        numbered = table.with_columns(draw=pl.Series(draw.random(table.height), dtype=pl.Float64))
        drawn = pl.concat([drawn, numbered])
        if drawn.height > 2 * pairs:
            drawn = drawn.bottom_k(pairs, by="draw")
    return drawn.bottom_k(pairs, by="draw").sort("draw").select(SIDES)
