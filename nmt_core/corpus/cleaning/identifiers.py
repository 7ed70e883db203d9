"""Identify languages with an identifier that the recipe names in place of the built-in ones.

`clean.identifier` is an entry point of the group `nmt_pipeline.identifiers`, or a function as module:function. It gets
a polars Series of normalised sentences and the path `clean.identifier_model`. It returns a polars table with one row
for each sentence, in order: `language` (any tag, such as de, deu or deu_Latn) and `probability`. The function may be
called in any process, any number of times, and its result for a sentence must depend only on that sentence.

The built-in name `fasttext` reads a model file of fastText, such as GlotLID's (Kargaran et al. 2023; 2,000 languages).
The file and its licence are the user's.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fasttext
import polars as pl

from nmt_core.config.language_codes import canonical
from nmt_core.corpus.cleaning import language_id, scorers
from nmt_core.errors import ConfigError, counted

External = Callable[[pl.Series, str], Any]

_MARK = "__label__"
_PLACE = "clean.identifier"


@dataclass(frozen=True)
class ByRecipe:
    """Identifier that the recipe names. All languages that it finds count, as it was the user's choice."""

    expected: str
    other: str
    min_probability: float
    name: str
    model: str

    def identify(self, text: pl.Series, beside: pl.Series | None = None) -> pl.Series:
        """Return a `language_id.VERDICT` for each normalised sentence. `beside` is not used.

        A sentence is refused if so much of the probability is another language's that less than `min_probability` is
        left. A sentence of at most `language_id.SHORT` letters is refused only for the pair's other language.

        Raises:
            ConfigError: the identifier cannot be loaded, or its result is not such a table.
        """
        distinct = text.unique().to_frame("text")
        verdicts = _identified(self.name, self.model, distinct["text"])
        letters = language_id.letters_of(pl.col("text"), r"\p{Latin}")
        table = distinct.with_columns(verdicts).with_columns(letters=letters)
        is_short = language_id.letters_count(table["letters"]) <= language_id.SHORT
        accepted, others = language_id.alike(self.expected), language_id.alike(self.other)
        is_wrong = ~pl.col("language").is_in(accepted) & (1 - pl.col("probability") < self.min_probability)
        is_wrong &= pl.col("language").is_in(others) | ~is_short
        passes = ~is_wrong | (pl.col("letters") == "")
        language = pl.when(pl.col("letters") == "").then(pl.lit(language_id.UNDETERMINED)).otherwise("language")
        verdict = pl.struct(
            language=pl.when(passes & (pl.col("letters") != "")).then(pl.lit(self.expected)).otherwise(language),
            probability="probability",
            is_expected=passes,
            lean=pl.lit(None, pl.Float64),
        )
        table = table.select("text", verdict=verdict.cast(language_id.VERDICT))
        joined = text.to_frame("text").join(table, on="text", how="left", maintain_order="left")
        return joined["verdict"].alias(text.name)


def version(name: str) -> str:
    """Return a string that changes when the identifier does. Empty means a built-in or an unknown one."""
    return "" if name in _BUILT_IN else scorers.version("identifiers", name)


def fasttext_model(text: pl.Series, model: str) -> pl.DataFrame:
    """Return the most probable language of each sentence by a model file of fastText.

    Raises:
        ConfigError: the file cannot be read.
    """
    predict = _model(model)
    looks = [predict(line, 1, 0.0, "strict") for line in text.to_list()]
    best = [
        (label.removeprefix(_MARK), min(p, 1.0)) for p, label in (look[0] if look else (0.0, "und") for look in looks)
    ]
    return pl.DataFrame(best, schema={"language": pl.String, "probability": pl.Float64}, orient="row")


@functools.lru_cache(maxsize=1)
def _model(file: str) -> Callable[[str, int, float, str], list[tuple[float, str]]]:
    if not Path(file).is_file():
        raise ConfigError(f"clean.identifier_model={file!r}: no such file: name a model file of fastText")
    try:
        return fasttext.load_model(file).f.predict  # type: ignore[no-any-return]
    except (ValueError, RuntimeError, MemoryError) as error:
        raise ConfigError(
            f"clean.identifier_model={file!r}: {error}: name a model file of fastText (.bin or .ftz)"
        ) from None


_BUILT_IN: dict[str, External] = {"fasttext": fasttext_model}


def require_loadable(name: str, model: str) -> None:
    """Load an identifier and ask it about one sentence.

    Raises:
        ConfigError: it cannot be loaded, or its result is not as required.
    """
    _identified(name, model, pl.Series(["This is a sentence."]))


def _identified(name: str, model: str, text: pl.Series) -> pl.DataFrame:
    """Return the columns language (as the shortest code) and probability."""
    function = _BUILT_IN.get(name) or scorers.load("identifiers", name)
    if not callable(function):
        raise ConfigError(f"{_PLACE}: {name!r}: is a {type(function).__name__}, not a function: name another")
    result = function(text, model)
    columns = {"language", "probability"}
    if not (isinstance(result, pl.DataFrame) and columns <= set(result.columns) and result.height == len(text)):
        raise ConfigError(
            f"{_PLACE}: {name!r}: did not return a polars table with the columns language and probability and "
            f"{counted(len(text), 'row')}: it must return one row for each sentence"
        )
    tags = {tag: canonical(tag) for tag in result["language"].unique().to_list()}
    return result.select(
        language=pl.col("language").replace_strict(tags, return_dtype=pl.String),
        probability=pl.col("probability").cast(pl.Float64),
    )
