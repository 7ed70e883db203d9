"""Denormal numbers are zero where a search runs, in its thread, and nowhere else."""

import platform
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from nmt_core.config import SearchConfig
from nmt_core.search.denormals import denormals_as_zero
from nmt_core.search.hypothesis import Hypothesis
from nmt_core.tokenizer.tokenizer import Tokenizer, Tokenizers
from nmt_core.translator import Translator

pytestmark = pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="nothing changes on other machines"
)


def are_zero() -> bool:
    """Return True if denormal numbers count as zero, both as results and as operands."""
    small, denormal = np.full((2, 64), [[1e-38], [1e-39]], np.float32)
    return bool((small * np.float32(0.01) == 0).all() and (denormal * np.float32(1e6) == 0).all())


def test_they_are_zero_within_and_not_after() -> None:
    assert not are_zero()
    with denormals_as_zero():
        assert are_zero()
        with denormals_as_zero():
            assert are_zero()
        assert are_zero(), "as before the inner block"
    assert not are_zero()


def test_an_exception_ends_it_too() -> None:
    with pytest.raises(KeyError), denormals_as_zero():
        raise KeyError
    assert not are_zero()


def test_other_threads_calculate_as_before() -> None:
    with ThreadPoolExecutor(1) as other:
        other.submit(int).result()  # a thread calculates as the one that started it
        with denormals_as_zero():
            assert not other.submit(are_zero).result()


@pytest.mark.parametrize("threads", [1, 2])
def test_translation_is_within(tiny_tokenizer: Tokenizer, threads: int) -> None:
    """The stepper is asked only for its size. There are two batches, so that each may have a thread of its own."""
    seen: list[bool] = []

    def search(_: object, sources: list[list[int]], *__: object) -> list[list[Hypothesis]]:
        seen.append(are_zero())
        return [[Hypothesis((), 0.0)] for _ in sources]

    both = Tokenizers(tiny_tokenizer, tiny_tokenizer)
    stepper: Any = SimpleNamespace(vocab_size=100)
    translator = Translator(stepper, both, SearchConfig(batch_tokens=16), threads)
    with patch("nmt_core.translator.search_batch", search):
        translator.search_ids([[5] * 9, [5] * 10], [[], []])
    assert (seen, are_zero()) == ([True, True], False)
