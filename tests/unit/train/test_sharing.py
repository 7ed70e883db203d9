"""The warning when processes would wait for each other, and whether its advice helps."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.facts import missing

from nmt_core.config import TrainConfig
from nmt_core.train.sharing import imbalance_warning


def said(processes: int, **options: int) -> str | None:
    return imbalance_warning(TrainConfig.model_validate(options), processes)


def test_the_published_recipes_on_eight_gpus() -> None:
    advice = said(8, max_tokens=25_000, micro_batch_tokens=2_048) or ""
    assert (
        missing(
            advice,
            r"\b12 micro-batches",
            r"\b8 processes",
            r"\b25%",
            r"set train\.micro_batch_tokens=1536 \(16 micro-batches\)$",
        )
        == []
    )


@pytest.mark.parametrize("processes", [1, 2, 3, 4, 6, 12])
def test_nothing_is_said_if_all_have_the_same(processes: int) -> None:
    assert said(processes, max_tokens=25_000, micro_batch_tokens=2_048) is None


def test_too_few_tokens_for_this_many_processes() -> None:
    advice = said(8, max_tokens=256, micro_batch_tokens=128, max_tokens_per_pass=256) or ""
    facts = (
        r"^2 micro-batches",
        r"\b8 processes",
        r"\b75%",
        r"set train\.max_tokens=1024 \(8 micro-batches\)",
        "NMT_PROCESSES to fewer$",
    )
    assert missing(advice, *facts) == []


@given(st.integers(64, 100_000), st.floats(0.001, 1), st.integers(1, 64))
@example(max_tokens=65_142, share=0.001953125, processes=3)  # no size gives 516 micro-batches
def test_what_it_advises_helps(max_tokens: int, share: float, processes: int) -> None:
    sizes = {
        "max_tokens": max_tokens,
        "micro_batch_tokens": max(64, int(share * max_tokens)),
        "max_tokens_per_pass": 100_000,
    }
    advice = said(processes, **sizes) or ""
    for option, value in re.findall(r"train\.(\w+)=(\d+)", advice):
        assert said(processes, **sizes | {option: int(value)}) is None
