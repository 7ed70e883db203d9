"""Intervals and p-values of randomisation equal the values of sacreBLEU's own command, and mean what they should."""

import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU
from support.until import patient

from nmt_core.config import SignificanceTest
from nmt_core.evaluate import significance
from nmt_core.evaluate.significance import compare, interval, scores_with_intervals
from nmt_core.scoring import SentenceStatistics

WORDS = ["the", "a", "cat", "dog", "house", "sees", "runs", "to", "it", "and", "big", "small", "now"]


def damaged(lines: list[str], share: float, seed: int) -> list[str]:
    """The lines with this share of their words replaced."""
    chance = random.Random(seed)
    return [
        " ".join(chance.choice(WORDS) if chance.random() < share else word for word in line.split()) for line in lines
    ]


@pytest.fixture(scope="module")
def references() -> list[str]:
    chance = random.Random(1)
    return [" ".join(chance.choice(WORDS) for _ in range(chance.randint(4, 20))) for _ in range(150)]


def of(metric: Any, hypotheses: list[str], references: list[str]) -> SentenceStatistics:
    return SentenceStatistics(metric, hypotheses, references, "en")


@pytest.mark.parametrize(("test", "option"), [("bootstrap", "bs"), ("randomisation", "ar")])
def test_figures_equal_sacrebleus_command(
    references: list[str], test: SignificanceTest, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    champion, challenger = damaged(references, 0.3, seed=2), damaged(references, 0.27, seed=3)
    for name, lines in {"reference": references, "champion": champion, "challenger": challenger}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    command = ["-m", "sacrebleu", "reference", "-i", "champion", "challenger", "-m", "bleu", "chrf"]
    command += [f"--paired-{option}", f"--paired-{option}-n", "1000", "-f", "text", "-w", "4"]
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=patient(120)
    )
    monkeypatch.setattr(significance, "_DRAWN_AT_ONCE", 64 * 150)  # several blocks
    p_values = [float(found) for found in re.findall(r"\(p = ([\d.]+)\)", done.stdout)]
    (row,) = [line for line in done.stdout.splitlines() if "challenger │" in line]
    shown = [[float(number) for number in re.findall(r"[\d.]+", cell)] for cell in row.split("│")[2:4]]
    for metric, (theirs, *resampled), p_value in zip(("BLEU", "chrF"), shown, p_values, strict=True):
        statistics = of(metric, challenger, references)
        found = compare(of(metric, champion, references), statistics, 1_000, test)
        assert found.challenger == pytest.approx(theirs, abs=1e-4)
        if option == "ar":
            assert found.p_value == pytest.approx(p_value, abs=5e-5)
        else:
            low, high = interval(statistics, 1_000)
            assert (high - low) / 2 == pytest.approx(resampled[1], abs=2e-4)


def test_the_figures_compared_are_no_extremes(references: list[str]) -> None:
    """Two p-values of 1 would be equal in any case."""
    champion, challenger = damaged(references, 0.3, seed=2), damaged(references, 0.27, seed=3)
    for test in ("bootstrap", "randomisation"):
        found = compare(of("BLEU", champion, references), of("BLEU", challenger, references), 1_000, test)  # type: ignore[arg-type]
        assert 0.002 < found.p_value < 0.9


def test_an_interval_contains_the_score_and_equals_corpus_score(references: list[str]) -> None:
    hypotheses = damaged(references, 0.3, seed=2)
    bleu, chrf = scores_with_intervals("news", (hypotheses, references), "en", 1_000)
    for score in (bleu, chrf):
        assert score.low is not None and score.high is not None
        assert score.low < score.score < score.high
    theirs = BLEU().corpus_score(hypotheses, [references], n_bootstrap=1_000)
    assert (bleu.high - bleu.low) / 2 == pytest.approx(theirs._ci, abs=1e-3)  # type: ignore[operator]
    assert scores_with_intervals("news", (hypotheses, references), "en", 0)[0].low is None


def test_a_clear_difference_is_significant_and_a_small_one_is_not(references: list[str]) -> None:
    poor, good, equal = (damaged(references, share, seed) for share, seed in ((0.5, 2), (0.1, 3), (0.1, 4)))
    clear = compare(of("BLEU", poor, references), of("BLEU", good, references), 1_000)
    assert clear.p_value < 0.01 and 0 < clear.low < clear.difference < clear.high
    small = compare(of("BLEU", good, references), of("BLEU", equal, references), 1_000)
    assert small.p_value > 0.05 and small.low < 0 < small.high


def test_equal_translations_differ_by_nothing(references: list[str]) -> None:
    same = of("BLEU", damaged(references, 0.3, seed=2), references)
    found = compare(same, same, 1_000)
    assert (found.difference, found.low, found.high, found.p_value) == (0, 0, 0, 1)


@settings(max_examples=15)
@given(
    lines=st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join), min_size=2, max_size=12),
    shares=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    test=st.sampled_from(["bootstrap", "randomisation"]),
)
def test_who_is_champion_changes_the_sign_and_nothing_else(
    lines: list[str], shares: tuple[float, float], test: SignificanceTest
) -> None:
    one, other = (of("chrF", damaged(lines, share, seed), lines) for seed, share in enumerate(shares))
    here, there = compare(one, other, 100, test), compare(other, one, 100, test)
    assert (here.p_value < 0.05) == (here.low > 0 or here.high < 0), "significant: the interval excludes 0"
    assert (here.low, here.high) == pytest.approx((-there.high, -there.low), abs=1e-8)
    assert here.difference == -there.difference
    assert 0 < here.p_value <= 1
    assert here.low <= here.high
    assert here.p_value == pytest.approx(there.p_value)


@pytest.mark.parametrize("test", ["bootstrap", "randomisation"])
@pytest.mark.parametrize("alpha", [0.2, 0.05, 0.01])
def test_the_interval_excludes_0_where_p_is_below_the_level(
    references: list[str], test: SignificanceTest, alpha: float
) -> None:
    champion = of("BLEU", damaged(references, 0.3, seed=2), references)
    seen = set()
    for number, share in enumerate((0.3, 0.28, 0.27, 0.26, 0.25, 0.24, 0.2)):
        challenger = of("BLEU", damaged(references, share, seed=3 + number), references)
        found = compare(champion, challenger, 500, test, alpha)
        assert (found.p_value < alpha) == (found.is_better or found.is_worse)
        seen.add(found.is_better)
    assert seen == {True, False}, "both sides of the level were tried"


def test_a_test_says_significant_as_rarely_as_its_level_when_there_is_no_difference() -> None:
    """Two systems have equal quality, many times: a p-value is below 0.1 in about a tenth of the cases."""
    wrong, trials = 0, 150
    for trial in range(trials):
        chance = random.Random(trial)
        texts = [" ".join(chance.choice(WORDS) for _ in range(10)) for _ in range(60)]
        one, other = (of("BLEU", damaged(texts, 0.3, seed=1_000 * side + trial), texts) for side in (1, 2))
        wrong += compare(one, other, 200, alpha=0.1).p_value < 0.1
    assert 0.03 * trials < wrong < 0.19 * trials
