"""Check the quality of a challenger against the champion, or without one against the source text."""

from collections.abc import Callable, Sequence

from nmt_core.config import RegistryConfig
from nmt_core.evaluate.significance import Comparison, compare
from nmt_core.evaluate.test_sets import TestSet
from nmt_core.evaluate.verdict import BY_HAND, Check, interval, number, percent
from nmt_core.scoring import Statistics


def against_champion(
    test_set: str, both: tuple[Statistics, Statistics], registry: RegistryConfig, *, is_main: bool
) -> Check:
    """Check that the challenger is significantly better on the main test set, or not significantly worse on another.

    Args:
        test_set: name of the test set.
        both: statistics of the champion's and of the challenger's translations of it.
        registry: test of significance.
        is_main: True for the main test set.
    """
    comparison, metric = _found(*both, registry), both[0].metric
    outcome = "better" if comparison.is_better else "worse" if comparison.is_worse else "neither better nor worse"
    why = (
        f"{metric} of {test_set} is {comparison.challenger:.2f} and the champion's "
        f"{comparison.champion:.2f}: {_difference(comparison, registry)}, significantly {outcome}"
    )
    passed = comparison.is_better if is_main else not comparison.is_worse
    condition = "significantly better" if is_main else "not significantly worse"
    if not passed and not comparison.is_worse:
        why += f"; on the main test set it must be better with p < {registry.significance:g}"
    check = _unjudged(f"{metric} of {test_set} is {condition}", test_set, metric, comparison, registry)
    return check.model_copy(update={"passed": passed, "why": why, "is_better": comparison.is_better})


def suite_against_champion(suite: str, both: tuple[Statistics, Statistics], registry: RegistryConfig) -> Check:
    """Check that the challenger is not worse on a suite by more than `registry.suite_margin`.

    The check fails only if the whole confidence interval of the loss is above the margin, and if `registry.suites` is
    `refuse`.

    Args:
        suite: name of the suite.
        both: statistics of the champion's and of the challenger's translations of it.
        registry: margin and test of significance.
    """
    found, metric, margin = _found(*both, registry), both[0].metric, registry.suite_margin
    is_lost = found.is_worse_by(margin)
    why = (
        f"{metric} of {suite} is {found.challenger:.2f} and the champion's {found.champion:.2f}: "
        f"{_difference(found, registry)}"
    )
    if is_lost:
        option = "registry.suites=report" + (" lets it pass" if registry.suites == "report" else " would let it pass")
        why += f"; a loss of registry.suite_margin={margin:g} is accepted; {option}"
    check = _unjudged(f"{metric} of {suite} is not worse by more than {margin:g}", suite, metric, found, registry)
    return check.model_copy(update={"passed": not is_lost or registry.suites == "report", "why": why})


def _found(one: Statistics, other: Statistics, registry: RegistryConfig) -> Comparison:
    return compare(one, other, registry.samples, registry.significance_test, registry.significance)


def _difference(found: Comparison, registry: RegistryConfig) -> str:
    """Return a difference with its interval and its p-value, which always agree."""
    return (
        f"by {number(found.difference, '+')} ({percent(1 - registry.significance)} interval "
        f"{interval(found.low, found.high)}, p = {found.p_value:.3f})"
    )


def _unjudged(name: str, test_set: str, metric: str, found: Comparison, registry: RegistryConfig) -> Check:
    """Return a check with the numbers of a comparison, not yet passed."""
    return Check(
        kind="quality",
        name=name,
        test_set=test_set,
        metric=metric,
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
    test: TestSet,
    hypotheses: Sequence[str],
    statistics: Callable[[Sequence[str]], Statistics],
    registry: RegistryConfig,
    *,
    is_main: bool,
) -> Check:
    """Check that a model is good enough to be the first champion.

    On the main test set it must reach `registry.min_score`. Without a minimum, it must be significantly better than the
    source text as its own translation. Fewer than half of its translations may be empty.

    Args:
        test: the test set.
        hypotheses: its translations.
        statistics: returns the statistics of translations of the test set.
        registry: minimum score and test of significance.
        is_main: True for the main test set. Other test sets are only reported.
    """
    own, floor = statistics(hypotheses), registry.min_score
    metric = own.metric
    named = f"{metric} of {test.name}"
    why = f"{named} is {own.score:.2f}, and there is no champion to compare with"
    if not is_main or floor == 0:
        return _scored(named, test.name, metric, own.score, why)
    empty = sum(not text.strip() for text in hypotheses)
    too_many = 2 * empty >= len(hypotheses)
    if floor is None:
        comparison = _found(statistics(test.sources), own, registry)
        is_enough = comparison.is_better
        why += f"; the source as its own translation has {comparison.champion:.2f}: {_difference(comparison, registry)}"
        remedy = "the first champion must be significantly better than that; registry.min_score sets another minimum"
    else:
        is_enough = own.score <= floor if own.lower_is_better else own.score >= floor
        remedy = f"the first champion must reach registry.min_score={floor:g}"
    why += f"; {remedy}" if not is_enough else "" if floor is None else f"; registry.min_score={floor:g}"
    why += f"; {empty:,} of {len(hypotheses):,} translations are empty" if empty else ""
    why += ", and it must be fewer than half of them" if too_many else ""
    bound = "at most" if own.lower_is_better else "at least"
    condition = "better than the source itself" if floor is None else f"{bound} {floor:g}"
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
