"""Results of challengers that translated a share of real jobs beside the champion, kept for the gate."""

from typing import Any

from pydantic import ValidationError

from flows.settings import Settings
from nmt_core.config import RegistryConfig
from nmt_core.errors import words_of
from nmt_core.evaluate.verdict import Check
from nmt_core.jobs.folder import Done
from nmt_core.jobs.shadow_result import ShadowResult, sign_test
from nmt_core.store.atomic import write_atomically

_NAME = "translates real jobs no worse than the champion"


def keep_result(settings: Settings, done: Done) -> str:
    """Keep the result of a job for the gate. Return the reason if it cannot be kept, else an empty text.

    A job has one result, however often it is reported.
    """
    result = done.shadow
    if result is None or result.problem:
        return ""
    folder = settings.home / "shadows" / result.sha256
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / f"{done.fingerprint[:16]}-{done.number}.json", result.model_dump_json())
    except OSError as error:
        return words_of(error)
    return ""


def read_results(settings: Settings, sha256: str) -> list[ShadowResult]:
    """Return the results of a challenger by the SHA-256 of its `config.json`. Unreadable files are left out."""
    results = []
    for file in sorted((settings.home / "shadows" / sha256).glob("*.json")):
        try:
            results.append(ShadowResult.model_validate_json(file.read_bytes()))
        except (OSError, ValidationError):
            continue
    return results


def shadow_check(results: list[ShadowResult], registry: RegistryConfig) -> list[Check]:
    """Return the check of the results of a challenger, or no check if `registry.shadow` is off.

    Args:
        results: results of all jobs.
        registry: options of the gate. `shadow`, `shadow_lines` and `significance` are used.
    """
    if registry.shadow == "off":
        return []
    lines = sum(result.lines for result in results)
    if lines < registry.shadow_lines:
        why = (
            f"it translated {lines:,} lines of real jobs beside the champion, and registry.shadow_lines="
            f"{registry.shadow_lines:,} are needed: run `nmt translate --shadow` with this version, then judge it again"
        )
        return [Check(kind="shadow", name=_NAME, passed=registry.shadow == "if_measured", why=why)]
    champion, challenger = (sum(result.bad_lines[side] for result in results) for side in (0, 1))
    alone = sum(one.champion_bad_alone for one in results), sum(one.challenger_bad_alone for one in results)
    p_value = sign_test(*alone)
    is_worse = alone[1] > alone[0] and p_value < registry.significance
    why = (
        f"{challenger:,} of {lines:,} lines of {len(results):,} job{'s' * (len(results) > 1)} have a bad status, "
        f"{champion:,} of the champion's (p={p_value:.2g})"
    )
    return [
        Check(
            kind="shadow",
            name=_NAME,
            metric="share of lines with a bad status",
            champion=round(champion / lines, 6),
            challenger=round(challenger / lines, 6),
            difference=round((challenger - champion) / lines, 6),
            level=1 - registry.significance,
            p_value=p_value,
            passed=not is_worse,
            why=why,
        )
    ]


def shadow_rows(result: ShadowResult) -> list[dict[str, Any]]:
    """Return the statuses of both models as the rows of a table."""
    names = sorted({*result.champion_statuses, *result.challenger_statuses})
    return [
        {
            "status": name,
            "champion": result.champion_statuses.get(name, 0),
            "challenger": result.challenger_statuses.get(name, 0),
        }
        for name in names
    ]
