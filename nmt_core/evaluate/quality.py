"""Check the quality of a challenger against the champion, or without one against the source text."""

from collections.abc import Sequence

from nmt_core.config import LanguagesConfig, RegistryConfig
from nmt_core.evaluate.significance import Comparison, compare
from nmt_core.evaluate.suites import MadeSuite
from nmt_core.evaluate.test_sets import TestSet
from nmt_core.evaluate.verdict import BY_HAND, Check, interval, number, percent
from nmt_core.scoring import SentenceStatistics


def against_champion(
    test: TestSet,
    hypotheses: tuple[Sequence[str], Sequence[str]],
    languages: LanguagesConfig,
    registry: RegistryConfig,
    *,
    is_main: bool,
) -> Check:
    """Check that the challenger is significantly better on the main test set, or not significantly worse on another.

    Args:
        test: the test set.
        hypotheses: the champion's and the challenger's translations of it.
        languages: languages. The target language decides how BLEU splits text into words.
        registry: metric and test of significance.
        is_main: True for the main test set.
    """
    champion, challenger = (
        SentenceStatistics(registry.metric, texts, test.references, languages.target) for texts in hypotheses
    )
    comparison = _found(champion, challenger, registry)
    outcome = "better" if comparison.is_better else "worse" if comparison.is_worse else "neither better nor worse"
    why = (
        f"{registry.metric} of {test.name} is {comparison.challenger:.2f} and the champion's "
        f"{comparison.champion:.2f}: {_difference(comparison, registry)}, significantly {outcome}"
    )
    passed = comparison.is_better if is_main else not comparison.is_worse
    condition = "significantly better" if is_main else "not significantly worse"
    if not passed and not comparison.is_worse:
        why += f"; on the main test set it must be better with p < {registry.significance:g}"
    check = _unjudged(f"{registry.metric} of {test.name} is {condition}", test.name, comparison, registry)
    return check.model_copy(update={"passed": passed, "why": why})


def suite_against_champion(
    suite: MadeSuite,
    hypotheses: tuple[Sequence[str], Sequence[str]],
    languages: LanguagesConfig,
    registry: RegistryConfig,
) -> Check:
    """Check that the challenger is not worse on a suite by more than `registry.suite_margin`.

    The check fails only if the whole confidence interval of the loss is above the margin, and if `registry.suites` is
    `refuse`.

    Args:
        suite: the suite.
        hypotheses: the champion's and the challenger's translations of it.
        languages: languages. The target language decides how BLEU splits text into words.
        registry: metric, margin and test of significance.
    """
    name, metric, margin = suite.test.name, registry.metric, registry.suite_margin
    test = suite.scored
    champion, challenger = (
        SentenceStatistics(metric, suite.comparable(texts), test.references, languages.target) for texts in hypotheses
    )
    found = _found(champion, challenger, registry)
    is_lost = found.high < -margin
    why = (
        f"{metric} of {name} is {found.challenger:.2f} and the champion's {found.champion:.2f}: "
        f"{_difference(found, registry)}"
    )
    if is_lost:
        option = "registry.suites=report" + (" lets it pass" if registry.suites == "report" else " would let it pass")
        why += f"; a loss of registry.suite_margin={margin:g} is accepted; {option}"
    check = _unjudged(f"{metric} of {name} is not lower by more than {margin:g}", name, found, registry)
    return check.model_copy(update={"passed": not is_lost or registry.suites == "report", "why": why})


def _found(one: SentenceStatistics, other: SentenceStatistics, registry: RegistryConfig) -> Comparison:
    return compare(one, other, registry.samples, registry.significance_test, registry.significance)


def _difference(found: Comparison, registry: RegistryConfig) -> str:
    """Return a difference with its interval and its p-value, which always agree."""
    return (
        f"by {number(found.difference, '+')} ({percent(1 - registry.significance)} interval "
        f"{interval(found.low, found.high)}, p = {found.p_value:.3f})"
    )


def _unjudged(name: str, test_set: str, found: Comparison, registry: RegistryConfig) -> Check:
    """Return a check with the numbers of a comparison, not yet passed."""
    return Check(
        kind="quality",
        name=name,
        test_set=test_set,
        metric=registry.metric,
        champion=round(found.champion, 4),
        challenger=round(found.challenger, 4),
        difference=round(found.difference, 4),
        low=found.low,  # not rounded: rounding may turn an end into 0
        high=found.high,
        level=round(1 - registry.significance, 6),
        p_value=round(found.p_value, 6),
        passed=False,
        why="",
    )


def first_champion(
    test: TestSet, hypotheses: Sequence[str], languages: LanguagesConfig, registry: RegistryConfig, *, is_main: bool
) -> Check:
    """Check that a model is good enough to be the first champion.

    On the main test set it must reach `registry.min_score`. Without a minimum, it must be significantly better than the
    source text as its own translation. Fewer than half of its translations may be empty.

    Args:
        test: the test set.
        hypotheses: its translations.
        languages: languages. The target language decides how BLEU splits text into words.
        registry: metric, minimum score and test of significance.
        is_main: True for the main test set. Other test sets are only reported.
    """
    metric, floor = registry.metric, registry.min_score
    copied, own = (
        SentenceStatistics(metric, texts, test.references, languages.target) for texts in (test.sources, hypotheses)
    )
    named = f"{metric} of {test.name}"
    why = f"{named} is {own.score:.2f}, and there is no champion to compare with"
    if not is_main or floor == 0:
        return _scored(named, test.name, metric, own.score, why)
    empty = sum(not text.strip() for text in hypotheses)
    too_many = 2 * empty >= len(hypotheses)
    if floor is None:
        comparison = _found(copied, own, registry)
        is_enough = comparison.is_better
        why += f"; the source as its own translation has {comparison.champion:.2f}: {_difference(comparison, registry)}"
        remedy = "the first champion must be significantly better than that; registry.min_score sets another minimum"
    else:
        is_enough = own.score >= floor
        remedy = f"the first champion must reach registry.min_score={floor:g}"
    why += f"; {remedy}" if not is_enough else "" if floor is None else f"; registry.min_score={floor:g}"
    why += f"; {empty:,} of {len(hypotheses):,} translations are empty" if empty else ""
    why += ", and it must be fewer than half of them" if too_many else ""
    condition = "better than the source itself" if floor is None else f"at least {floor:g}"
    check = _scored(f"{named} is {condition}", test.name, metric, own.score, why)
    return check.model_copy(update={"passed": is_enough and not too_many})


def _scored(name: str, test_set: str, metric: str, score: float, why: str) -> Check:
    """Return a passed check with a score that is not compared."""
    return Check(
        kind="quality", name=name, test_set=test_set, metric=metric, challenger=round(score, 4), passed=True, why=why
    )


def not_compared(test_set: str, metric: str, problem: str, *, champion: bool = True) -> Check:
    """Return a failed check of a test set on which a model cannot be compared.

    Args:
        test_set: name of the test set.
        metric: metric of the comparison.
        problem: reason.
        champion: True if the champion's translations are missing, False if the challenger cannot be scored.
    """
    what = f"the champion's translations of {test_set} are missing" if champion else f"{test_set} cannot be scored"
    return Check(
        kind="quality",
        name=f"{metric} of {test_set}",
        test_set=test_set,
        metric=metric,
        passed=False,
        why=f"{what} ({problem}): {BY_HAND}",
    )
