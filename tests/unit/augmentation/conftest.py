"""Pairs, and draws of their changes."""

import random
from collections.abc import Callable, Sequence

import pytest

from nmt_core.augmentation.changes import CHANGES
from nmt_core.augmentation.draw import Draw, Pair
from nmt_core.config import Change

Changer = Callable[..., Pair]


@pytest.fixture
def change() -> Changer:
    """Change a pair, by the name of the change."""

    def changed(
        name: Change,
        source: str,
        target: str,
        *,
        languages: Pair = ("en", "de"),
        seed: int = 1,
        others: Sequence[Pair] = (),
    ) -> Pair:
        return CHANGES[name]((source, target), Draw(random.Random(seed), languages, 1.0, others))

    return changed
