"""Text for the tests of `nmt init`, made by the toy grammar: English and Korean."""

import functools

import pytest

from nmt_core.corpus import toy

Pairs = list[tuple[str, str]]


@functools.cache
def made() -> tuple[tuple[str, str], ...]:
    generated = toy.generate(pairs=2_000, seed=3, held_out=20)
    pairs = [
        (english, korean)
        for english, korean in generated.train
        if english.isascii() and not korean.isascii() and "\ufffd" not in korean
    ]
    return tuple(dict.fromkeys(pairs))[:1_500]


@pytest.fixture(scope="session")
def pairs() -> Pairs:
    """Distinct pairs of English and Korean."""
    return list(made())
