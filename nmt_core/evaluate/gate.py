"""The conditions on which a challenger becomes champion, each from what is known of both; nothing is fetched here.

A model without a champion before it must be better than its own source text, or reach the floor of the recipe. It must
compute what was trained, must not have seen the test sets, and must translate the sentences that have to be right.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from nmt_core.config import ExportConfig, RegistryConfig
from nmt_core.evaluate.must_translate import SentenceCheck
from nmt_core.evaluate.verdict import BY_HAND, Check, CheckKind, Verdict

_SHOWN_PROBLEMS = 2
_ASK_FOR_LESS = "registry.built_in_sentences='no_worse' would ask for as many as the champion's"

Report = Mapping[str, Any]
"""What a stage reported, as JSON."""


def parity(export: Report, config: ExportConfig) -> Check:
    """Whether the graphs compute what was trained, as `export` measured it."""
    compared, identical = export.get("compared_sentences", 0), export.get("identical_beams", 0)
    difference = export.get("max_difference", float("inf"))
    passed = compared > 0 and identical == compared and difference <= config.parity_tolerance
    why = (
        f"{identical:,} of {compared:,} held-out sentences are translated by ONNX Runtime as by PyTorch, "
        f"log-probabilities within {difference:.1e} nats"
        if compared
        else "export reported no comparison with PyTorch: run the recipe again with --force export"
    )
    for name, reason in export.get("not_published", {}).items():
        why += f"; without {name}: {reason}"
    return Check(kind="parity", name="ONNX Runtime computes what PyTorch does", passed=passed, why=why)


def speed(ratio: float, note: str, registry: RegistryConfig, between: tuple[float, float] | None = None) -> Check:
    """Whether the challenger is fast enough beside the champion: not if all of the interval is beyond what is allowed.

    Args:
        ratio: the challenger's tokens per second over the champion's.
        note: beside which version, and how both translated.
        registry: how much slower it may be.
        between: the 95% interval of the ratio, if it is known.
    """
    low, high = between or (ratio, ratio)
    slowest = 1 - registry.max_slowdown
    passed = high >= slowest
    why = f"{ratio:.2f} times as many tokens per second as {note}"
    if ratio < slowest:
        why += f"; registry.max_slowdown={registry.max_slowdown:g} is allowed"
        why += f", which the 95% interval holds ({low:.2f} to {high:.2f})" if passed else ""
    return Check(
        kind="speed",
        name=_speed_name(registry),
        metric="tokens per second, champion = 1",
        champion=1.0,
        challenger=round(ratio, 4),
        difference=round(ratio - 1, 4),
        low=low - 1 if between else None,
        high=high - 1 if between else None,
        passed=passed,
        why=why,
    )


def speed_unknown(problem: str, registry: RegistryConfig, *, passed: bool) -> Check:
    """Speeds that were not compared: that lets a challenger pass if it is the champion that cannot be had."""
    return Check(kind="speed", name=_speed_name(registry), passed=passed, why=f"speed is not compared ({problem})")


def _speed_name(registry: RegistryConfig) -> str:
    return f"at most {registry.max_slowdown:.0%} slower than the champion"


def not_measured(kind: CheckKind, problem: str) -> Check:
    """What cannot be known of the challenger, as the champion cannot be had; it may be there again by the next time."""
    return Check(
        kind=kind,
        name=f"{kind}: the champion can be asked",
        passed=False,
        why=f"the champion cannot be asked ({problem}): see that its files are there, and run it again; or {BY_HAND}",
    )


def contamination(unknown: str, leaks: Mapping[str, int], registry: RegistryConfig) -> Check:
    """Whether no test sentence was trained on.

    Args:
        unknown: why that is not known; empty: all that shared text with a held-out set was left out.
        leaks: how many training pairs that were, by set.
        registry: whether it has to be known.
    """
    name = "no test sentence was trained on"
    if not unknown:
        count = sum(leaks.values())
        sets = f" ({', '.join(f'{name} {number:,}' for name, number in leaks.items())})" if count else ""
        why = f"{count:,} training pairs shared text with dev or test sets{sets}, and none of them was trained on"
        return Check(kind="contamination", name=name, passed=True, why=why)
    allowed = registry.contamination == "allow"
    knob = "registry.contamination=allow" + (" lets it pass" if allowed else " would let it pass")
    return Check(kind="contamination", name=name, passed=allowed, why=f"{unknown}; {knob}")


def sentences(
    challenger: Sequence[SentenceCheck],
    champion: Sequence[SentenceCheck] | None,
    registry: RegistryConfig,
    unread: str = "",
) -> list[Check]:
    """Whether the sentences that a model must get right are right: one check for those of the recipe, if it has any,
    and one for each kind of the built-in ones.

    Args:
        challenger: its translations.
        champion: its translations; None: there are none.
        registry: how many must be right.
        unread: why a champion that there is has none.
    """
    checks = []
    for kind in dict.fromkeys(one.kind for one in challenger):
        own = [one for one in challenger if one.kind == kind]
        theirs = [one for one in champion or () if one.kind == kind]
        kept, before = (sum(not one.problem for one in group) for group in (own, theirs))
        if kind != "recipe" and registry.built_in_sentences == "off":
            continue
        absolute = kind == "recipe" or registry.built_in_sentences == "all"
        needed = len(own) if absolute else before
        wrong = [one for one in own if one.problem]
        examples = "; ".join(f"{one.source!r} -> {one.translation!r}: {one.problem}" for one in wrong[:_SHOWN_PROBLEMS])
        why = f"{kept} of {len(own)} are right" + (f", {before} of the champion's" if theirs else "")
        passed = kept >= needed
        why += f"; {unread}" if unread else ""
        why += f"; {examples}" if wrong and (absolute or not passed) else ""
        why += f"; {_ASK_FOR_LESS}" if kind != "recipe" and absolute and not passed else ""
        what = "the recipe's must-translate sentences" if kind == "recipe" else f"{kind} are copied"
        checks.append(
            Check(
                kind="sentences",
                name=what if absolute else f"{what} no worse than by the champion",
                metric="sentences",
                champion=float(before) if theirs else None,
                challenger=float(kept),
                difference=float(kept - before) if theirs else None,
                passed=passed,
                why=why,
            )
        )
    return checks


def history(taken_back: str) -> Check:
    """Whether the model was never champion and taken back; `taken_back` says when, by whom and why."""
    why = f"{taken_back}: it is never promoted by itself again; {BY_HAND}" if taken_back else "it was never taken back"
    return Check(kind="history", name="was never rolled back", passed=not taken_back, why=why)


def decide(model_name: str, versions: tuple[str, str], checks: Sequence[Check]) -> Verdict:
    """The verdict: every condition must hold.

    Args:
        model_name: of the registered model.
        versions: the champion's (empty: there is none) and the challenger's.
        checks: all of them.
    """
    champion, challenger = versions
    failed = [check for check in checks if not check.passed]
    main = next((check for check in checks if check.kind == "quality"), None)
    if failed:
        others = f"; {len(failed) - 1} further check{'s' * (len(failed) > 2)} failed" if len(failed) > 1 else ""
        reason = f"stays challenger: {failed[0].why}{others}"
    elif champion:
        reason = f"replaces version {champion}" + (f": {main.why}" if main else "")
    else:
        reason = "the first champion" + (f": {main.why}" if main else "")
    return Verdict(
        model_name=model_name,
        challenger=challenger,
        champion=champion,
        promoted=not failed,
        reason=reason,
        checks=tuple(checks),
    )
