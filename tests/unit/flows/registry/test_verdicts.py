"""A verdict as a table: for Markdown, for a terminal, and kept with a version."""

import io
from typing import Any

from rich.console import Console

from flows.registry import verdicts
from nmt_core.evaluate.verdict import Check, Verdict

QUALITY = Check(
    kind="quality",
    name="BLEU of a|b is significantly better",
    test_set="a|b",
    metric="BLEU",
    champion=27.5,
    challenger=28.0,
    difference=0.5,
    low=-0.1234,
    high=1.1,
    p_value=0.0712,
    passed=False,
    why="BLEU of a|b is [bold]28.00",
)
HISTORY = Check(kind="history", name="was never rolled back", passed=True, why="it was never taken back")
VERDICT = Verdict(
    model_name="test",
    challenger="2",
    champion="1",
    promoted=False,
    reason="stays challenger: BLEU",
    checks=(QUALITY, HISTORY),
)


def test_each_check_is_a_row_with_its_numbers_and_a_sentence() -> None:
    text = verdicts.markdown(VERDICT)
    assert text.startswith("# test version 2 stays challenger: BLEU\n")
    row = "| BLEU of a\\|b is significantly better | FAILED | 27.50 | 28 | +0.50 | -0.12 to +1.10 | 0.071 |"
    assert row in text
    assert "| was never rolled back | passed |  |  |  |  |  |" in text
    assert r"- FAILED: **BLEU of a\|b is significantly better**: BLEU of a\|b is \[bold\]28.00." in text
    columns = {line.replace("\\|", "").count("|") for line in text.splitlines() if line.startswith("|")}
    assert columns == {8}


def test_a_terminal_of_80_columns_shows_every_number_whatever_the_names_hold() -> None:
    named = VERDICT.model_copy(update={"checks": (QUALITY.model_copy(update={"name": "[/] of [bold]"}), HISTORY)})
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(verdicts.table(named))
    text = console.export_text()
    assert all(part in text for part in ("[/] of [bold]", "FAILED", "27.50", "-0.12 to +1.10", "0.071"))
    assert max(len(line) for line in text.splitlines()) <= 80


def test_a_verdict_without_checks_is_a_line() -> None:
    assert verdicts.markdown(VERDICT.model_copy(update={"checks": ()})) == "# test version 2 stays challenger: BLEU\n\n"


def test_what_is_kept_is_found_again(registry: Any) -> None:
    registry.client.create_registered_model("test")
    version = registry.client.create_model_version("test", "file:///nowhere")
    assert verdicts.kept(version).checks == ()
    long = VERDICT.model_copy(update={"reason": "x" * 200_000})
    verdicts.keep(registry.client, version, long)
    assert verdicts.kept(registry.client.get_model_version("test", "1")).reason == "was not judged"
    verdicts.keep(registry.client, version, VERDICT)
    assert verdicts.kept(registry.client.get_model_version("test", "1")) == VERDICT
