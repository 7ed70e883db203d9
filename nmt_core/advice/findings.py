"""Look at text: its languages and its size, and what the filters of `clean` make of a sample."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from nmt_core.advice import identified
from nmt_core.advice.corpora import Grouped, LocalCorpus, Pair, Role, corpus_name, directed, grouped
from nmt_core.advice.declared import declared
from nmt_core.advice.sample import UNKNOWN, Drawn, draw
from nmt_core.config import SIDES, CleanConfig, LanguagesConfig
from nmt_core.corpus import normalize, scripts
from nmt_core.corpus.cleaning import filters
from nmt_core.corpus.cleaning.thresholds import rules_for, usual_length_ratio
from nmt_core.errors import ConfigError, DataError, counted
from nmt_core.formats import kinds
from nmt_core.spelling import Spelling

LEAST_PAIRS = 1_000
"""Fewest pairs of training text for which a recipe is written."""

_READ_PAIRS = 200_000
_JUDGED_PAIRS = 50_000
_LEAST_OF_A_CORPUS = 2_000
_MOST = 0.5
_PREVIEW = 2_000
_ADDRESSES = r"https?://|www\.|@[\w-]+\.\w"
_PLACEHOLDERS = r"%[sd]|%\(\w+\)|\{\w*\}|%\d"


@dataclass(frozen=True)
class Corpus:
    """A corpus of the recipe."""

    role: Role
    entry: dict[str, Any]
    """Values of its entry in the section `corpus`."""
    pairs: int
    about: str
    """Size, and whether it is exact, for a comment."""


@dataclass(frozen=True)
class Sample:
    """Measures of a sample of the training text."""

    kept: pl.DataFrame
    """Normalised pairs that the filters keep: columns source and target."""
    judged: int
    read: int
    is_whole: bool
    """True if the sample is all of the text."""
    kept_share: float
    """Share of the pairs that the filters and the search for copies keep."""
    reasons: dict[str, float]
    """Share of the pairs that each filter drops, the most frequent one first. `duplicate` counts copies."""
    max_words: int
    """Number of words that all but one side in a thousand have at most."""
    length_ratio: float
    """Median of source characters for one target character."""
    unusual_ratio: float
    """Median ratio divided by the usual one of these languages, both weighed by their scripts."""
    marked: dict[str, float]
    """Share of the source sentences that hold numbers, addresses and placeholders."""
    words_have_spaces: bool
    """True if the target language puts spaces between words."""
    shares: tuple[dict[str, float], dict[str, float]]
    """Languages of the source and of the target, with their shares of the text."""


@dataclass(frozen=True)
class Findings:
    """Facts about the text from which a recipe follows."""

    name: str
    languages: Pair
    corpora: tuple[Corpus, ...]
    sample: Sample | None
    """None for text that is not on this machine."""
    seconds: float
    notes: tuple[str, ...]

    @property
    def pairs(self) -> int:
        """Number of pairs of the training text."""
        return sum(corpus.pairs for corpus in self.corpora if corpus.role == "train")

    @property
    def kept_pairs(self) -> int:
        """Number of pairs that are left after cleaning, as far as a sample shows."""
        return round(self.pairs * (self.sample.kept_share if self.sample else 1.0))

    def of_role(self, role: Role) -> list[Corpus]:
        """Return the corpora of a role."""
        return [corpus for corpus in self.corpora if corpus.role == role]


@dataclass(frozen=True)
class Wishes:
    """Facts about the text that the user gives."""

    languages: Pair | None = None
    columns: Pair = ("", "")
    encoding: str = ""
    seed: int = 1


def look(places: Sequence[str], wishes: Wishes, *, least_pairs: int = LEAST_PAIRS) -> Findings:
    """Look at the text in files or in a folder. Of large text, only the beginning is read.

    Raises:
        NmtError: the text cannot be read, is in one language only, or is too little.
    """
    began, notes = time.monotonic(), list[str]()
    groups = _with_wishes(grouped(places, wishes.languages), wishes)
    if groups.unused:
        shown = ", ".join(path.name for path in groups.unused[:8])
        notes.append(f"not used, because they hold no text with a translation: {shown}")
    languages = wishes.languages or _languages_of(groups.corpora, wishes)
    drawn = _drawn(groups.corpora, languages, wishes.seed, notes)
    train = [one for one in drawn if one.corpus.role == "train"]
    sample = _measured(train, languages, wishes)
    pairs = sum(one.pairs for one in train)
    if pairs * sample.kept_share < least_pairs:
        raise DataError(
            f"{places[0]}: {counted(pairs, 'pair')} beside dev and test text, of which the filters keep "
            f"{sample.kept_share:.0%}, are too few to train a model: {least_pairs:,} are the least, and 100,000 or "
            "more give useful translations: add text, for example from OPUS, which `nmt init "
            f"opus:{'-'.join(languages)}` lists"
        )
    return Findings(
        name=_name_of(places),
        languages=languages,
        corpora=tuple(_corpus(one) for one in drawn),
        sample=sample,
        seconds=time.monotonic() - began,
        notes=tuple(dict.fromkeys(notes)),
    )


def _with_wishes(groups: Grouped, wishes: Wishes) -> Grouped:
    if any(wishes.columns) and any(corpus.both is None for corpus in groups.corpora):
        raise ConfigError("--source-column and --target-column are for tables, but the text is in a file for each side")
    columns = wishes.columns
    corpora = [replace(corpus, columns=columns, encoding=wishes.encoding) for corpus in groups.corpora]
    return Grouped(corpora, groups.unused)


def _name_of(places: Sequence[str]) -> str:
    path = Path(places[0]).expanduser().resolve()
    name = path.name if path.is_dir() else kinds.data_name(path.name).partition(".")[0]
    return corpus_name(name)


def _corpus(drawn: Drawn) -> Corpus:
    about = f"{drawn.pairs:,} pairs" if drawn.is_whole else f"about {_rounded(drawn.pairs):,} pairs"
    return Corpus(drawn.corpus.role, drawn.corpus.entry(), drawn.pairs, about)


def _rounded(number: float) -> int:
    """Return a number with two digits that count."""
    digits = max(0, int(math.log10(max(1.0, number))) - 1)
    return int(round(number / 10**digits) * 10**digits)


def _drawn(corpora: Sequence[LocalCorpus], languages: Pair, seed: int, notes: list[str]) -> list[Drawn]:
    trained = sum(corpus.role == "train" for corpus in corpora)
    drawn = []
    for corpus in corpora:

        def note(text: str, corpus: LocalCorpus = corpus) -> None:
            notes.append(f"{corpus.shown}: {text}")

        most_read = max(_LEAST_OF_A_CORPUS, _READ_PAIRS // max(1, trained))
        most_kept = _JUDGED_PAIRS // max(1, trained) if corpus.role == "train" else 0
        one = draw(corpus, languages, most_read, max(_LEAST_OF_A_CORPUS, most_kept), seed, note)
        _require_text(one)
        drawn.append(one)
    return drawn


def _require_text(drawn: Drawn) -> None:
    faults = drawn.rows["fault"].drop_nulls()
    if faults.len() <= _MOST * drawn.rows.height:
        return
    fault = str(faults.mode().sort()[0])
    shown = next(iter(drawn.rows.filter(fault=fault)["value"].drop_nulls()), "")
    remedy = {
        "invalid_utf8": "name its charset, as in --encoding windows-1252, or name a file of text",
        "null_byte": "it is no text: name a file of text, or its charset, as in --encoding utf-16-le",
        "missing_column": "name the columns with --source-column and --target-column, or another table",
        "missing_language": "name other languages with --languages",
        "untranslated": "name a file that holds translations",
    }.get(fault, "name another file, or repair this one")
    raise DataError(
        f"{drawn.corpus.shown}: {faults.len() / drawn.rows.height:.0%} of the rows cannot be used "
        f"({fault.replace('_', ' ')}{f': {shown}' if shown else ''}): {remedy}"
    )


def _languages_of(corpora: Sequence[LocalCorpus], wishes: Wishes) -> Pair:
    """Return the languages that the files declare, or else the ones that their text is in.

    Raises:
        NmtError: the files disagree, or the text does not show its language.
    """
    found: dict[Pair, LocalCorpus] = {}
    for corpus in corpora:
        known = declared(corpus.both, corpus.encoding) if corpus.both else corpus.languages
        if not all(known) or known[0] == known[1]:
            known = _identified(corpus, known, wishes)
        found.setdefault(known, corpus)
    pairs = list(found)
    unordered = {frozenset(pair) for pair in pairs}
    if len(unordered) == 1:
        return pairs[0] if len(pairs) == 1 else directed(pairs[0])
    first, second = pairs[:2]
    raise ConfigError(
        f"{found[first].shown} is in {first[0]} and {first[1]}, but {found[second].shown} is in {second[0]} and "
        f"{second[1]}: leave one out, or name the languages of all with --languages {first[0]}-{first[1]}"
    )


def _identified(corpus: LocalCorpus, known: Pair, wishes: Wishes) -> Pair:
    placeholder = (known[0] or UNKNOWN[0], known[1] or UNKNOWN[1])
    rows = draw(corpus, placeholder, _PREVIEW, _PREVIEW, wishes.seed, lambda _: None)
    _require_text(rows)
    usable = rows.rows.filter(pl.col("fault").is_null())
    _require_translations(usable, corpus.shown)
    languages = []
    for side, given in zip(SIDES, known, strict=True):
        shares = identified.languages_of(usable[side], wishes.seed)
        if not given and not identified.is_sure(shares):
            raise DataError(
                f"{corpus.shown}: the language of the {side} side is not clear ({_shown(shares)}): name the languages, "
                "the source first, as in --languages en-de"
            )
        languages.append(given or next(iter(shares)))
    source, target = languages
    if source == target:
        raise DataError(
            f"{corpus.shown}: both sides are in one language ({source}): name a file with a translation, or, if the "
            "languages are near ones, name them with --languages, the source first"
        )
    return source, target


def _shown(shares: dict[str, float]) -> str:
    return ", ".join(f"{share:.0%} {language}" for language, share in list(shares.items())[:3]) or "no letters"


def _require_translations(rows: pl.DataFrame, shown: str) -> None:
    copies = rows.filter(pl.col("source").str.strip_chars() == pl.col("target").str.strip_chars()).height
    if rows.height and copies > _MOST * rows.height:
        raise DataError(
            f"{shown}: source and target are the same text in {copies / rows.height:.0%} of the pairs: name the file, "
            "or the column, that holds the translation"
        )


def _measured(train: Sequence[Drawn], languages: Pair, wishes: Wishes) -> Sample:
    for one in train:
        usable = one.rows.filter(pl.col("fault").is_null())
        _require_translations(usable, one.corpus.shown)
        _require_languages(one.corpus, usable, languages, wishes.seed)
    tables = [_judged(one, languages) for one in train]
    table = pl.concat(tables)
    total = sum(one.pairs for one in train)
    # Each corpus counts by its size, not by its part of the sample.
    reasons: dict[str, float] = {}
    for one, judged in zip(train, tables, strict=True):
        for reason, count in judged["reason"].drop_nulls().value_counts(name="count").iter_rows():
            reasons[reason] = reasons.get(reason, 0.0) + count / judged.height * one.pairs / total
    kept = table.filter(pl.col("reason").is_null())
    unique = kept.unique(["source_key", "target_key"], maintain_order=True)
    copies = 1 - unique.height / max(1, kept.height)
    kept_share = 1 - sum(reasons.values())
    if copies:
        reasons["duplicate"] = kept_share * copies
    words = pl.concat([kept.select(words=_words(side)) for side in SIDES] + [_too_long(table)])["words"]
    weighted, raw = _ratios(kept)
    return Sample(
        kept=unique.select(SIDES),
        judged=table.height,
        read=sum(one.read for one in train),
        is_whole=all(one.is_whole and one.read == one.rows.height for one in train),
        kept_share=max(0.0, kept_share * (1 - copies)),
        reasons=dict(sorted(reasons.items(), key=lambda item: -item[1])),
        max_words=int(words.quantile(0.999) or 1),
        length_ratio=raw,
        unusual_ratio=weighted / usual_length_ratio(_config(languages)),
        marked=_marked(kept["source"]),
        words_have_spaces=not scripts.is_mostly_unspaced(kept["target"].head(_PREVIEW)),
        shares=_shares(unique, wishes.seed),
    )


def _config(languages: Pair) -> LanguagesConfig:
    return LanguagesConfig(source=languages[0], target=languages[1])


def _shares(kept: pl.DataFrame, seed: int) -> tuple[dict[str, float], dict[str, float]]:
    source, target = (identified.languages_of(kept[side], seed) for side in SIDES)
    return source, target


def _words(side: str) -> pl.Expr:
    return normalize.word_count(scripts.with_spaces(pl.col(side)))


def _too_long(table: pl.DataFrame) -> pl.DataFrame:
    """Return the numbers of words of the pairs that are dropped for having too many."""
    return table.filter(pl.col("reason").is_in(["too_many_words", "too_many_characters"])).select(
        words=pl.max_horizontal(_words("source"), _words("target"))
    )


def _ratios(kept: pl.DataFrame) -> tuple[float, float]:
    """Return the median number of source characters for one target character, weighed by scripts and not weighed."""
    if not kept.height:
        return 1.0, 1.0
    source, target = (pl.col(side).str.len_chars() for side in SIDES)
    heavy = [count + scripts.extra_weight(pl.col(side)) for side, count in zip(SIDES, (source, target), strict=True)]
    medians = kept.select(weighted=(heavy[0] / heavy[1]).median(), raw=(source / target).median())
    return float(medians["weighted"][0] or 1.0), float(medians["raw"][0] or 1.0)


def _marked(source: pl.Series) -> dict[str, float]:
    patterns = {"numbers": r"\d", "addresses": _ADDRESSES, "placeholders": _PLACEHOLDERS}
    return {name: float(source.str.contains(pattern).mean() or 0.0) for name, pattern in patterns.items()}  # type: ignore[arg-type]


def _require_languages(corpus: LocalCorpus, rows: pl.DataFrame, languages: Pair, seed: int) -> None:
    """Check that each side is in its language.

    Raises:
        DataError: the sides are swapped, or a side is in another language.
    """
    shares = [identified.languages_of(rows[side], seed) for side in SIDES]
    wrong = [identified.contradicts(share, language) for share, language in zip(shares, languages, strict=True)]
    source, target = languages
    if wrong == [target, source]:
        raise DataError(
            f"{corpus.shown}: source and target are swapped: the text called {source} is in {target} "
            f"({shares[0][target]:.0%}), and the text called {target} is in {source}: rename the "
            f"{'columns' if corpus.both else 'files'}, or name the languages with --languages {target}-{source}"
            + (" and the columns with --source-column and --target-column" if corpus.both else "")
        )
    for place, side in enumerate(SIDES):
        if other := wrong[place]:
            right = (other, target) if side == "source" else (source, other)
            raise DataError(
                f"{corpus.shown}: the {side} side should be in {languages[place]}, but {shares[place][other]:.0%} of "
                f"it is in {other}: name the languages, the source first, as in --languages {'-'.join(right)}"
            )


def _judged(drawn: Drawn, languages: Pair) -> pl.DataFrame:
    """Return the rows, normalised, with the reason for which `clean` would drop each of them."""
    config, clean = _config(languages), CleanConfig()
    rules = rules_for(clean, config, drawn.corpus.name)
    texts = [
        normalize.normalised(pl.col(side), *Spelling.of(clean, code))
        for side, code in zip(SIDES, languages, strict=True)
    ]
    return (
        drawn.rows.lazy()
        .select("source", "target", "fault", fault_value="value")
        .with_columns(texts)
        .with_columns(normalize.key(pl.col(side)).alias(f"{side}_key") for side in SIDES)
        .pipe(filters.judge, rules)
        .select("source", "target", "source_key", "target_key", "reason")
        .collect()
    )
