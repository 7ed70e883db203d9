"""A precision is refused for a loss that is significant and above the allowed one, or that is large in any case."""

import random

import pytest

from nmt_core.config import ExportConfig
from nmt_core.export.losses import Change, change, too_much
from nmt_core.scoring import SentenceStatistics

WORDS = ["the", "a", "cat", "dog", "house", "sees", "runs", "to", "it", "and", "big", "small", "now"]
CONFIG = ExportConfig()


def text(sentences: int) -> list[str]:
    chance = random.Random(1)
    return [" ".join(chance.choice(WORDS) for _ in range(12)) for _ in range(sentences)]


def damaged(lines: list[str], share: float, seed: int) -> list[str]:
    chance = random.Random(seed)
    return [
        " ".join(chance.choice(WORDS) if chance.random() < share else word for word in line.split()) for line in lines
    ]


def between(one: list[str], other: list[str], references: list[str]) -> Change:
    before, after = (SentenceStatistics("BLEU", lines, references, "en") for lines in (one, other))
    return change(before, after)


def test_what_a_thousand_sentences_move_by_themselves_refuses_nothing() -> None:
    """Rounding improves some translations and harms others. BLEU 0.3 less is not a loss."""
    references = text(1_000)
    fp32 = damaged(references, 0.2, seed=2)
    losses = []
    for seed in range(12):
        chance = random.Random(seed)
        other = damaged(references, 0.2, seed=100 + seed)
        int8 = [new if chance.random() < 0.15 else old for old, new in zip(fp32, other, strict=True)]
        losses.append(between(fp32, int8, references))
    by_chance = [loss for loss in losses if loss.difference < -CONFIG.max_bleu_loss]
    assert by_chance, "a bound without a test would refuse some of these"
    refused = [loss for loss in losses if too_much(loss, CONFIG)]
    assert len(refused) <= 1 and all(loss.high < 0 for loss in refused)


def test_a_loss_in_most_sentences_is_refused_by_the_margin() -> None:
    references = text(1_000)
    fp32 = damaged(references, 0.2, seed=2)
    int8 = damaged(fp32, 0.005, seed=3)
    found = between(fp32, int8, references)
    assert -CONFIG.bleu_loss_bound < found.difference < -CONFIG.max_bleu_loss and found.high < 0
    assert "is significant and exceeds export.max_bleu_loss=0.2" in too_much(found, CONFIG)
    assert not too_much(found, ExportConfig(max_bleu_loss=0.9)), "it is significant, and within the margin"


def test_a_large_loss_on_few_sentences_is_refused_though_nothing_is_significant_there() -> None:
    references = text(8)
    fp32 = damaged(references, 0.2, seed=2)
    int8 = damaged(references, 0.2, seed=6)
    found = between(fp32, int8, references)
    if found.difference > 0:
        found = between(int8, fp32, references)
    assert found.difference < -1 and found.high > 0
    assert too_much(found, CONFIG) == "the loss exceeds export.bleu_loss_bound=1"
    assert not too_much(found, ExportConfig(bleu_loss_bound=100))
    assert not too_much(found, ExportConfig(max_bleu_loss=100)), "the bound is never below the margin"


@pytest.mark.parametrize("difference", [float("nan"), -1.01])
def test_what_is_no_number_is_refused(difference: float) -> None:
    assert too_much(Change(difference=difference, low=-5, high=5), CONFIG)


def test_equal_translations_lose_nothing() -> None:
    references = text(20)
    found = between(references, references, references)
    assert str(found) == "0.00 (95% interval 0.00 to 0.00)" and not too_much(found, CONFIG)
