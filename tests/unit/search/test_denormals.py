"""Denormal numbers are zero where a search runs, in its thread, and nowhere else."""

import platform
import sys
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

import numpy as np
import pytest

from nmt_core.config import SearchConfig
from nmt_core.search import methods
from nmt_core.search.denormals import denormals_as_zero
from nmt_core.search.methods import search_batch

pytestmark = pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="nothing changes on other machines"
)


def are_zero() -> bool:
    """Of a result, and of an operand."""
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


@pytest.mark.parametrize(("name", "search"), [("greedy_search", SearchConfig(beam_size=1)), ("n_best", SearchConfig())])
def test_every_search_is_within(name: str, search: SearchConfig) -> None:
    seen: list[bool] = []
    with patch.object(methods, name, side_effect=lambda *_: seen.append(are_zero()) or []):
        search_batch(None, [[1]], search)  # type: ignore[arg-type]  # nothing is asked of the stepper
    assert (seen, are_zero()) == ([True], False)
