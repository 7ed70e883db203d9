"""How good a challenger must be: better than the champion, or, without one, better than its own source text."""

from collections.abc import Sequence

from nmt_core.config import LanguagesConfig, RegistryConfig
from nmt_core.evaluate.significance import Comparison, compare
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
    """Whether the challenger is better on the main test set, or no worse on another.

    Args:
        test: the test set.
        hypotheses: the champion's and the challenger's translations of it.
        languages: the target language decides how BLEU finds words.
        registry: metric and test of significance.
        is_main: which of the two is asked.
    """
    champion, challenger = (
        SentenceStatistics(registry.metric, texts, test.references, languages.target) for texts in hypotheses
    )
    found = _found(champion, challenger, registry)
    is_what = "better" if found.is_better else "worse" if found.is_worse else "neither better nor worse"
    why = (
        f"{registry.metric} of {test.name} is {found.challenger:.2f} and the champion's {found.champion:.2f}: "
        f"{_difference(found, registry)}, significantly {is_what}"
    )
    passed = found.is_better if is_main else not found.is_worse
    wanted = "significantly better" if is_main else "not significantly worse"
    if not passed and not found.is_worse:
        why += f"; on the main test set it must be better with p < {registry.significance:g}"
    check = _unjudged(f"{registry.metric} of {test.name} is {wanted}", test.name, found, registry)
    return check.model_copy(update={"passed": passed, "why": why})


def _found(one: SentenceStatistics, other: SentenceStatistics, registry: RegistryConfig) -> Comparison:
    return compare(one, other, registry.samples, registry.significance_test, registry.significance)


def _difference(found: Comparison, registry: RegistryConfig) -> str:
    """A difference with its interval and its p, which say the same."""
    return (
        f"by {number(found.difference, '+')} ({percent(1 - registry.significance)} interval "
        f"{interval(found.low, found.high)}, p = {found.p_value:.3f})"
    )


def _unjudged(name: str, test_set: str, found: Comparison, registry: RegistryConfig) -> Check:
    """The numbers of a comparison as a check, without a verdict."""
    return Check(
        kind="quality",
        name=name,
        test_set=test_set,
        metric=registry.metric,
        champion=round(found.champion, 4),
        challenger=round(found.challenger, 4),
        difference=round(found.difference, 4),
        low=found.low,  # not rounded, for that may make 0 of what is not
        high=found.high,
        level=round(1 - registry.significance, 6),
        p_value=round(found.p_value, 6),
        passed=False,
        why="",
    )


def first_champion(
    test: TestSet, hypotheses: Sequence[str], languages: LanguagesConfig, registry: RegistryConfig, *, is_main: bool
) -> Check:
    """Whether a model that is compared with no champion is good enough to be one.

    On the main test set it must reach `registry.min_score`; if the recipe names none, it must be significantly better
    than the source would be as a translation of itself. Half of its translations must not be empty.

    Args:
        test: the test set.
        hypotheses: its translations.
        languages: the target language decides how BLEU finds words.
        registry: metric, floor and test of significance.
        is_main: other test sets are only reported.
    """
    metric, floor = registry.metric, registry.min_score
    copied, ours = (
        SentenceStatistics(metric, texts, test.references, languages.target) for texts in (test.sources, hypotheses)
    )
    named = f"{metric} of {test.name}"
    why = f"{named} is {ours.score:.2f}, and there is no champion to compare with"
    if not is_main or floor == 0:
        return _scored(named, test.name, metric, ours.score, why)
    empty = sum(not text.strip() for text in hypotheses)
    too_many = 2 * empty >= len(hypotheses)
    if floor is None:
        found = _found(copied, ours, registry)
        is_enough = found.is_better
        why += f"; the source as its own translation has {found.champion:.2f}: {_difference(found, registry)}"
        remedy = "the first champion must be significantly better than that; registry.min_score sets another floor"
    else:
        is_enough = ours.score >= floor
        remedy = f"registry.min_score={floor:g} is what the first champion must reach"
    why += f"; {remedy}" if not is_enough else "" if floor is None else f"; registry.min_score={floor:g}"
    why += f"; {empty:,} of {len(hypotheses):,} translations are empty" if empty else ""
    why += ", and it must be fewer than half of them" if too_many else ""
    wanted = "better than the source itself" if floor is None else f"at least {floor:g}"
    check = _scored(f"{named} is {wanted}", test.name, metric, ours.score, why)
    return check.model_copy(update={"passed": is_enough and not too_many})


def _scored(name: str, test_set: str, metric: str, score: float, why: str) -> Check:
    """A score that is compared with nothing."""
    return Check(
        kind="quality", name=name, test_set=test_set, metric=metric, challenger=round(score, 4), passed=True, why=why
    )


def not_compared(test_set: str, metric: str, problem: str, *, champion: bool = True) -> Check:
    """A test set on which a model cannot be judged.

    Args:
        test_set: its name.
        metric: what would be compared.
        problem: why not.
        champion: whether there is one, whose translations cannot be had; else the challenger's cannot be judged.
    """
    what = f"the champion's translations of {test_set} cannot be had" if champion else f"{test_set} cannot be judged"
    return Check(
        kind="quality",
        name=f"{metric} of {test_set}",
        test_set=test_set,
        metric=metric,
        passed=False,
        why=f"{what} ({problem}): {BY_HAND}",
    )
