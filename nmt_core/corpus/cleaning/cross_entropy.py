"""The score `cross-entropy-difference`: how much more like the text of a domain than like all of the text a pair is.

For each side, one language model learns from text of the domain and another one from as much of all training text. A
pair's score is the cross-entropy under the latter less that under the former, in nats per word, summed over both sides
(Moore and Lewis 2010; Axelrod et al. 2011, section 4.1, with the sign turned: as of any score, more is better). Pairs
above 0 are more like the domain than like the rest.

The vocabulary of a side is the words that come twice or more in its text of the domain; all others are one word to both
models. Of scripts without spaces, and of Hangul, whose words have endings without number, each character counts as a
word.
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
_CHUNK_PAIRS = 50_000  # scored at a time, in about 100 MB
_SEED = 1

_ONE_BY_ONE = r"\p{Han}\p{Hiragana}\p{Katakana}ー\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}"
_WORD = rf"[{_ONE_BY_ONE}]|[[\p{{L}}\p{{M}}\p{{N}}]--[{_ONE_BY_ONE}]]+|[^\s\p{{L}}\p{{M}}\p{{N}}]"


def is_built_in(rule: ScoreRule) -> bool:
    """Whether a rule asks for this score."""
    return rule.scorer == CROSS_ENTROPY_DIFFERENCE and not rule.command


def words_of(text: pl.Series) -> pl.Series:
    """List of the words of each sentence, punctuation marks among them, in lower case."""
    return text.str.to_lowercase().str.extract_all(_WORD)


@dataclass(frozen=True)
class _Side:
    """The models of one language."""

    vocabulary: pl.Series
    in_domain: LanguageModel
    general: LanguageModel

    @classmethod
    def learn(cls, in_domain: pl.Series, general: pl.Series) -> "_Side":
        words = words_of(in_domain)
        vocabulary = frequent([words], _COMES_OFTEN)
        size = len(vocabulary) + 2  # <unk> and the end
        models = [
            LanguageModel.learn(Sentences.of(each, vocabulary, _ORDER), size) for each in (words, words_of(general))
        ]
        return cls(vocabulary, models[0], models[1])

    def difference(self, text: pl.Series) -> np.ndarray:
        """Of each sentence, in nats per word."""
        sentences = Sentences.of(words_of(text), self.vocabulary, _ORDER)
        difference: np.ndarray = self.general.cross_entropy(sentences) - self.in_domain.cross_entropy(sentences)
        return difference


@dataclass(frozen=True)
class Selection:
    """The models of both languages."""

    sides: Mapping[str, _Side]

    @classmethod
    def learn(cls, in_domain: pl.DataFrame, general: pl.DataFrame) -> "Selection":
        """From pairs of the domain, and from about as many of all text: columns source and target, normalised."""
        return cls({side: _Side.learn(in_domain[side], general[side]) for side in SIDES})

    def score(self, pairs: pl.DataFrame) -> pl.Series:
        """Of each pair; more is more like the domain."""
        parts = pairs.iter_slices(_CHUNK_PAIRS) if pairs.height else ()
        sums = [sum((self.sides[side].difference(part[side]) for side in SIDES), np.zeros(1)) for part in parts]
        return pl.Series(np.concatenate([np.zeros(0), *sums]))

    def to_frame(self) -> pl.DataFrame:
        """As a table, to be written down."""
        tables = []
        for name, side in self.sides.items():
            parts = {"words": side.vocabulary.to_frame("word"), "in": side.in_domain.grams, "all": side.general.grams}
            tables += [table.with_columns(side=pl.lit(name), part=pl.lit(part)) for part, table in parts.items()]
        return pl.concat(tables, how="diagonal")

    @classmethod
    def from_frame(cls, table: pl.DataFrame) -> "Selection":
        """What `to_frame` made."""
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
    """A function that scores pairs by models that were written down; it reads them when it is first asked."""
    return lambda pairs: _read(models).score(pairs)


@functools.lru_cache(maxsize=2)
def _read(models: str) -> Selection:
    """A worker scores many shards by the same models."""
    return Selection.from_frame(storage.read(models))


def learn(config: PipelineConfig, download: Artifact) -> tuple[Selection, int]:
    """Learn from the text of `clean.in_domain` and from as many pairs that are drawn from all training text.

    Returns:
        The models, and how many pairs of the domain they have learnt from.

    Raises:
        DataError: the text of the domain cannot be read, or there is none; or other text, and the recipe says to stop.
    """
    index, clean, languages = CorpusIndex.of(download), config.clean, config.languages
    corpora = {corpus.name: corpus for corpus in index.corpora if corpus.role == "train"}
    if clean.in_domain in index.skipped:
        raise DataError(
            f"clean.in_domain={clean.in_domain!r}: left out ({index.skipped[clean.in_domain]}), so there "
            "is no text of the domain to learn from: mend it and run with --force download, or name another corpus"
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
                    raise  # otherwise it is left out, and whoever cleans it says so


def _sound(rows: Iterable[pl.DataFrame], clean: CleanConfig, languages: LanguagesConfig) -> Iterator[pl.DataFrame]:
    """Pairs without a fault, normalised as the pairs will be that are scored."""
    for table in rows:
        sound = table.filter(pl.col("fault").is_null()) if "fault" in table.columns else table
        yield sound.select(
            normalize.normalised(pl.col(side).fill_null(""), *Spelling.of(clean, getattr(languages, side)))
            for side in SIDES
        ).filter(pl.all_horizontal(pl.col(SIDES) != ""))


def _draw(tables: Iterable[pl.DataFrame], pairs: int) -> pl.DataFrame:
    """So many of all rows, or all; each has a random number, and the least ones are kept."""
    draw = np.random.default_rng(_SEED)
    drawn = pl.DataFrame(schema={"source": pl.String, "target": pl.String, "draw": pl.Float64})
    for table in tables:
        numbered = table.with_columns(draw=pl.Series(draw.random(table.height), dtype=pl.Float64))
        drawn = pl.concat([drawn, numbered])
        if drawn.height > 2 * pairs:
            drawn = drawn.bottom_k(pairs, by="draw")
    return drawn.bottom_k(pairs, by="draw").sort("draw").select(SIDES)
