"""Check the conditions on which a challenger becomes champion. This module fetches nothing: callers pass all values.

Without a champion, the challenger must be better than the source text as its own translation, or reach the minimum
score of the recipe. It must compute the same as the trained model, must not be trained on the test sets, and must
translate the sentences of the recipe correctly.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from nmt_core.config import ExportConfig, RegistryConfig
from nmt_core.evaluate.must_translate import SentenceCheck
from nmt_core.evaluate.verdict import BY_HAND, Check, CheckKind, Verdict

_SHOWN_PROBLEMS = 2
_ASK_FOR_LESS = "registry.built_in_sentences='no_worse' would require only as many as the champion has"

Report = Mapping[str, Any]
"""Report of a stage, as JSON."""


def parity(export: Report, config: ExportConfig) -> Check:
    """Check that the exported graphs compute the same as the trained model, as measured by `export`."""
    compared, identical = export.get("compared_sentences", 0), export.get("identical_beams", 0)
    difference = export.get("max_difference", float("inf"))
    passed = compared > 0 and identical == compared and difference <= config.parity_tolerance
    why = (
        f"ONNX Runtime translates {identical:,} of {compared:,} held-out sentences as PyTorch does, with "
        f"log-probabilities within {difference:.1e} nats"
        if compared
        else "export reported no comparison with PyTorch: run the recipe again with --force export"
    )
    for name, reason in export.get("not_published", {}).items():
        why += f"; without {name}: {reason}"
    return Check(kind="parity", name="ONNX Runtime computes what PyTorch does", passed=passed, why=why)


def speed(ratio: float, note: str, registry: RegistryConfig, between: tuple[float, float] | None = None) -> Check:
    """Check that the challenger is fast enough. It fails only if the whole interval is below the allowed ratio.

    Args:
        ratio: the challenger's tokens per second divided by the champion's.
        note: version of the champion, and how both translated.
        registry: options of the gate. `max_slowdown` is used.
        between: 95% interval of the ratio, if it is known.
    """
    low, high = between or (ratio, ratio)
    slowest = 1 - registry.max_slowdown
    passed = high >= slowest
    why = f"{ratio:.2f} times as many tokens per second as {note}"
    if ratio < slowest:
        why += f"; registry.max_slowdown={registry.max_slowdown:g} is allowed"
        why += f", which is within the 95% interval ({low:.2f} to {high:.2f})" if passed else ""
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
    """Return the check of speeds that were not compared.

    Args:
        problem: reason why they were not compared.
        registry: options of the gate. `max_slowdown` is used.
        passed: True to let the challenger pass, because the champion is not available.
    """
    return Check(kind="speed", name=_speed_name(registry), passed=passed, why=f"speed is not compared ({problem})")


def _speed_name(registry: RegistryConfig) -> str:
    return f"at most {registry.max_slowdown:.0%} slower than the champion"


def not_measured(kind: CheckKind, problem: str) -> Check:
    """Return a failed check that could not be made because the champion is not available."""
    return Check(
        kind=kind,
        name=f"{kind}: the champion is available",
        passed=False,
        why=f"the champion is not available ({problem}): check that its files exist, and run it again; or {BY_HAND}",
    )


def contamination(unknown: str, leaks: Mapping[str, int], registry: RegistryConfig) -> Check:
    """Check that no test sentence was trained on.

    Args:
        unknown: reason why this is not known. Empty means that all pairs that share text with a held-out set were left
            out.
        leaks: number of training pairs that were left out, by held-out set.
        registry: options of the gate. `contamination` is used.
    """
    name = "no test sentence was trained on"
    if not unknown:
        count = sum(leaks.values())
        sets = f" ({', '.join(f'{name} {number:,}' for name, number in leaks.items())})" if count else ""
        why = f"{count:,} training pairs shared text with dev or test sets{sets}, and none of them was trained on"
        return Check(kind="contamination", name=name, passed=True, why=why)
    allowed = registry.contamination == "allow"
    option = "registry.contamination=allow" + (" lets it pass" if allowed else " would let it pass")
    return Check(kind="contamination", name=name, passed=allowed, why=f"{unknown}; {option}")


def sentences(
    challenger: Sequence[SentenceCheck],
    champion: Sequence[SentenceCheck] | None,
    registry: RegistryConfig,
    unread: str = "",
) -> list[Check]:
    """Check the must-translate sentences: one check for the recipe's sentences, and one for each built-in kind.

    Args:
        challenger: the challenger's translations.
        champion: the champion's translations. None means that there are none.
        registry: options of the gate. `built_in_sentences` is used.
        unread: reason why an existing champion has no translations.
    """
    checks = []
    for kind, pair in dict.fromkeys((one.kind, one.pair) for one in challenger):
        own = [one for one in challenger if (one.kind, one.pair) == (kind, pair)]
        old = [one for one in champion or () if (one.kind, one.pair) == (kind, pair)]
        kept, before = (sum(not one.problem for one in group) for group in (own, old))
        if kind != "recipe" and registry.built_in_sentences == "off":
            continue
        absolute = kind == "recipe" or registry.built_in_sentences == "all"
        needed = len(own) if absolute else before
        wrong = [one for one in own if one.problem]
        examples = "; ".join(f"{one.source!r} -> {one.translation!r}: {one.problem}" for one in wrong[:_SHOWN_PROBLEMS])
        why = f"{kept} of {len(own)} are right" + (f", {before} of the champion's" if old else "")
        passed = kept >= needed
        why += f"; {unread}" if unread else ""
        why += f"; {examples}" if wrong and (absolute or not passed) else ""
        why += f"; {_ASK_FOR_LESS}" if kind != "recipe" and absolute and not passed else ""
        what = "the recipe's must-translate sentences" if kind == "recipe" else f"{kind} are copied"
        what += f" ({pair})" if pair else ""
        checks.append(
            Check(
                kind="sentences",
                name=what if absolute else f"{what} no worse than by the champion",
                pair=pair,
                metric="sentences",
                champion=float(before) if old else None,
                challenger=float(kept),
                difference=float(kept - before) if old else None,
                passed=passed,
                why=why,
            )
        )
    return checks


def history(taken_back: str) -> Check:
    """Check that the model was never rolled back. `taken_back` names time, author and reason, or is empty."""
    why = f"{taken_back}: the gate never promotes it again; {BY_HAND}" if taken_back else "it was never rolled back"
    return Check(kind="history", name="was never rolled back", passed=not taken_back, why=why)


def pairs_won(checks: Sequence[Check], pairs: Sequence[str]) -> tuple[str, ...]:
    """Return the pairs of languages in which a challenger is better than their champions.

    All checks that concern every pair have passed, and all checks of the pair itself. On the first test set of the pair
    the challenger is significantly better, or the champion cannot translate the pair.

    Args:
        checks: all checks of the gate.
        pairs: pairs of languages that can have a champion of their own.
    """
    if any(not check.passed for check in checks if check.pair not in pairs):
        return ()
    won = []
    for pair in pairs:
        own = [check for check in checks if check.pair == pair]
        main = next((check for check in own if check.kind == "quality"), None)
        if main and all(check.passed for check in own) and (main.is_better or main.champion is None):
            won.append(pair)
    return tuple(won)


def decide(model_name: str, versions: tuple[str, str], checks: Sequence[Check], pairs: Sequence[str] = ()) -> Verdict:
    """Return the verdict. The challenger is promoted if every check has passed.

    Args:
        model_name: name of the registered model.
        versions: version of the champion and of the challenger. An empty champion means that there is none.
        checks: all checks of the gate.
        pairs: pairs of languages that can have a champion of their own. If the challenger is refused, it may become
            their champion.
    """
    champion, challenger = versions
    failed = [check for check in checks if not check.passed]
    main = next((check for check in checks if check.kind == "quality"), None)
    won = pairs_won(checks, pairs) if champion and failed else ()
    if failed:
        others = f"; {len(failed) - 1} more check{'s' * (len(failed) > 2)} failed" if len(failed) > 1 else ""
        reason = f"stays challenger: {failed[0].why}{others}"
        reason = f"becomes champion for {', '.join(won)}, and otherwise {reason}" if won else reason
    elif champion:
        reason = f"replaces version {champion}" + (f": {main.why}" if main else "")
    else:
        reason = "the first champion" + (f": {main.why}" if main else "")
    return Verdict(
        model_name=model_name,
        challenger=challenger,
        champion=champion,
        promoted=not failed,
        pairs=won,
        reason=reason,
        checks=tuple(checks),
    )
