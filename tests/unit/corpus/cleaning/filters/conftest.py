"""Filters, applied to a few pairs as `clean` applies them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nmt_core.config import CleanConfig, LanguagesConfig
from nmt_core.corpus import normalize
from nmt_core.corpus.cleaning.filters import judge, word_lists
from nmt_core.corpus.cleaning.thresholds import rules_for

Pair = tuple[str, str]
Judge = Callable[..., pl.DataFrame]


@pytest.fixture
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    """Judge normalised pairs: `judged(pairs, "en-de", max_words=5...)`. Languages are identified only on request."""

    def judge_all(pairs: Sequence[Pair], languages: str = "en-de", **options: Any) -> pl.DataFrame:
        source, _, target = languages.partition("-")
        config = CleanConfig.model_validate({"min_language_probability": 0, **options})
        pair = LanguagesConfig(source=source, target=target)
        lists = {}
        for side, phrases in word_lists.read(config, pair).items():
            lists[side] = str(Path(tmp_path_factory.mktemp("lists"), f"{side}.parquet"))
            phrases.write_parquet(lists[side])
        rules = replace(rules_for(config, pair, "corpus"), word_lists=lists)
        schema = {"source": pl.String, "target": pl.String}
        nothing = pl.lit(None, pl.String)
        table = pl.LazyFrame(pairs, schema=schema, orient="row").with_columns(fault=nothing, fault_value=nothing)
        keys = [normalize.key(pl.col(side)).alias(f"{side}_key") for side in schema]
        return table.with_columns(keys).pipe(judge, rules).collect()

    return judge_all


@pytest.fixture
def verdict(judged: Judge) -> Callable[..., tuple[str | None, str | None]]:
    """Reason and value of one normalised pair."""

    def judge_one(pair: Pair, languages: str = "en-de", **options: Any) -> tuple[str | None, str | None]:
        reason, value = judged([pair], languages, **options).select("reason", "value").row(0)
        return reason, value

    return judge_one
