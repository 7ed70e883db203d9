"""Two profiles are compared by tests that scipy confirms, and drift only where a difference is sure and large."""

import random
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from nmt_core.corpus.toy import generate
from nmt_core.drift.comparison import LEAST_PSI, chi_square, compare, holm, kolmogorov_smirnov, population_stability
from nmt_core.drift.profile import Profile, merged, profile_of, words_of
from nmt_core.spelling import Spelling
from nmt_core.tokenizer.tokenizer import Tokenizer

ENGLISH = Spelling(language="en")


def test_kolmogorov_smirnov_is_the_one_of_scipy() -> None:
    draw = np.random.default_rng(1)
    one, other = draw.poisson(9, 700), draw.poisson(9.4, 3_000)
    statistic, p_value = kolmogorov_smirnov(np.bincount(one, minlength=40), np.bincount(other, minlength=40))
    exact = stats.ks_2samp(one, other, method="asymp")
    assert statistic == pytest.approx(exact.statistic)
    assert p_value == pytest.approx(exact.pvalue, rel=0.15), "scipy adds a term for small samples"
    assert kolmogorov_smirnov(np.array([3, 4]), np.array([3, 4])) == (0, 1)


def test_chi_square_is_the_one_of_scipy_and_rare_names_are_one() -> None:
    own, other = np.array([40, 60, 30, 3, 4]), np.array([300, 290, 310, 20, 18])
    joined = np.array([[40, 60, 30, 7], [300, 290, 310, 38]])
    exact = stats.chi2_contingency(joined, correction=False)
    statistic, p_value = chi_square(own, other)
    assert p_value == pytest.approx(exact.pvalue)
    whole = np.array([own, other])
    assert statistic == pytest.approx(stats.contingency.association(whole, method="cramer"))
    assert chi_square(np.array([5]), np.array([9])) == (0, 1)


def test_a_single_line_of_a_new_name_proves_nothing() -> None:
    assert chi_square(np.array([32, 1]), np.array([1_250, 0])).p_value > 0.01
    assert chi_square(np.array([0, 33]), np.array([1_250, 0])).p_value < 1e-9
    assert chi_square(np.array([300, 200, 0]), np.array([3_000, 2_000, 3])).p_value == 1
    assert chi_square(np.array([400, 100, 0]), np.array([3_000, 2_000, 3])).p_value < 1e-9


def test_holm_bounds_the_chance_of_any_false_alarm() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.5]) == [1.0, 1.0] and holm([]) == []


def test_the_population_stability_index_is_symmetric_and_finite() -> None:
    one, other = np.array([100, 0, 50]), np.array([80, 30, 40])
    assert population_stability(one, other) == pytest.approx(population_stability(other, one))
    p, q = (one + 0.5) / 151.5, (other + 0.5) / 151.5
    assert population_stability(one, other) == pytest.approx(stats.entropy(p, q) + stats.entropy(q, p))
    assert population_stability(one, one) == 0


def test_a_sure_difference_that_is_small_is_no_drift(tiny_tokenizer: Tokenizer) -> None:
    """In 100,000 lines, a hundredth more of one bin is significant beyond doubt."""
    lengths = dict.fromkeys(range(5, 15), 10000)
    job = Profile(lines=100_000, histograms={"characters": lengths | {5: 11_500, 14: 8_500}})
    drift = compare(job, Profile(lines=100_000, histograms={"characters": lengths}), "training text")
    [difference] = drift.differences
    assert difference.p_value < 1e-9 and difference.psi < LEAST_PSI and not difference.drifts
    assert drift.size == "none" and drift.in_words() == "the text is like the training text"
    few = Profile(lines=2, histograms={"characters": {5: 2}})
    assert compare(few, merged([few, job]), "earlier jobs").size == "none", "two lines prove nothing"


SHIFTS: dict[str, Callable[[random.Random, str], str]] = {
    "upper case": lambda draw, line: line.upper(),
    "no capitals": lambda draw, line: line.lower(),
    "no punctuation": lambda draw, line: line.rstrip(".?!"),
    "doubled": lambda draw, line: f"{line} {line}",
    "first words": lambda draw, line: " ".join(line.split()[:2]),
    "emoji": lambda draw, line: f"{line} 🎉",
    "numbers": lambda draw, line: f"{draw.randrange(9_999)} {line}",
    "tags": lambda draw, line: f"<b>{line}</b>",
    "typos": lambda draw, line: "".join(c if draw.random() > 0.2 else draw.choice("qxzjkvw") for c in line),
}


@pytest.fixture(scope="module")
def toy() -> list[str]:
    """Lines of the toy corpus, in no order."""
    lines = [pair[0] for pair in generate(pairs=8_000, seed=1, held_out=10).train]
    random.Random(1).shuffle(lines)
    return lines


@pytest.mark.cpu(15)
def test_planted_shifts_are_found_and_text_of_the_same_kind_raises_no_alarm(
    tiny_tokenizer: Tokenizer, toy: list[str]
) -> None:
    training = profile_of(toy[:3_000], tiny_tokenizer, ENGLISH)

    def measures(lines: list[str]) -> list[str]:
        drift = compare(profile_of(lines, tiny_tokenizer, ENGLISH), training, "training text")
        return [difference.measure for difference in drift.drifting]

    jobs = [random.Random(number).sample(toy[3_000:], 600) for number in range(10)]
    assert [measures(job) for job in jobs] == [[]] * 10
    draw = random.Random(1)
    found = {name: measures([shift(draw, line) for line in jobs[0]]) for name, shift in SHIFTS.items()}
    assert [name for name, differences in found.items() if not differences] == []
    assert "upper_case" in found["upper case"] and "symbols" in found["emoji"] and "digits" in found["numbers"]
    assert {"characters", "tokens", "distinct_words"} <= set(found["doubled"])


def test_a_drift_is_told_by_its_largest_differences(tiny_tokenizer: Tokenizer, toy: list[str]) -> None:
    training = profile_of(toy[:1_000], tiny_tokenizer, ENGLISH)
    job = profile_of([line.upper() for line in toy[1_000:1_400]], tiny_tokenizer, ENGLISH)
    drift = compare(job, training, "training text")
    first = drift.drifting[0]
    assert drift.size == "large" and (drift.lines, drift.reference_lines) == (400, training.lines)
    assert drift.in_words().startswith(
        f"the text differs from the training text: {words_of(first.measure)} (PSI {first.psi:.2f})"
    )
    assert [one.psi for one in drift.drifting] == sorted((one.psi for one in drift.drifting), reverse=True)
