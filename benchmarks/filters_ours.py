"""Run our side of `filters.py`: normalise and judge the pairs of a file, and print the time and what was kept."""

import json
import sys
import time
from pathlib import Path

import polars as pl
from filters import WARM_UP_PAIRS

from nmt_core.config import CleanConfig, LanguagesConfig
from nmt_core.corpus import normalize
from nmt_core.corpus.cleaning.filters import judge
from nmt_core.corpus.cleaning.thresholds import CleanRules, rules_for


def main() -> None:
    """Judge the pairs of the first argument's file. Identify languages if there is a second argument."""
    clean = CleanConfig(
        expected_length_ratio=1.0,
        min_language_probability=0.2 if sys.argv[2] else 0.0,
        numbers_must_match=True,
        end_marks_must_match=True,
        placeholders_must_match=False,
    )
    rules = rules_for(clean, LanguagesConfig(source="en", target="de"), "bench")
    rows = (line.split("\t") for line in Path(sys.argv[1]).read_bytes().decode().split("\n")[:-1])
    text = pl.DataFrame(list(rows), schema={"source": pl.String, "target": pl.String}, orient="row")
    faultless = pl.lit(None, dtype=pl.String)
    text = text.with_columns(fault=faultless, fault_value=faultless)
    _kept(text.head(WARM_UP_PAIRS), rules)
    start = time.process_time()
    kept = pl.concat(_kept(shard, rules) for shard in text.iter_slices(clean.shard_pairs))
    seconds = time.process_time() - start
    print(json.dumps({"pairs": text.height, "cpu_seconds": seconds, "kept": kept.arg_true().to_list()}))


def _kept(shard: pl.DataFrame, rules: CleanRules) -> pl.Series:
    """Return True for each pair that is kept, by the plan of the stage `clean` up to the filters."""
    sides = [pl.col("source"), pl.col("target")]
    return (
        shard.lazy()
        .with_columns(normalize.normalised(side, rules.clean.unicode_form) for side in sides)
        .with_columns(normalize.key(side).name.suffix("_key") for side in sides)
        .pipe(judge, rules)
        .select(pl.col("reason").is_null())
        .collect()
        .to_series()
    )


if __name__ == "__main__":
    main()
