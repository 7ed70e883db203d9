"""Reports of stages as metrics and as Markdown."""

from typing import Any

from flows.display import reports

REPORT: dict[str, Any] = {
    "items_in": 2_000,
    "items_out": 1_860,
    "unit": "pairs",
    "share": 0.93,
    "loss": float("nan"),
    "dropped": {"copy": 12, "too | long": 3},
    "scores": [{"test_set": "toy", "metric": "BLEU", "score": 97.5, "signature": "nrefs:1|case:mixed"}],
    "samples": [{"source": "a|b", "reference": "", "translation": "c\nd"}],
    "nothing": [],
    "monolingual": None,
    "started_from": "",
    "seconds": 12.5,
    "bytes": {"model.onnx": 1_500},
    "useful_token_share": 0.875,
    "checked": True,
}


def test_every_finite_number_becomes_a_metric_with_a_name_that_mlflow_takes() -> None:
    assert reports.metrics(REPORT) == {
        "items_in": 2_000,
        "items_out": 1_860,
        "share": 0.93,
        "dropped.copy": 12,
        "dropped.too _ long": 3,
        "BLEU.toy": 97.5,
        "checked": 1,
        "seconds": 12.5,
        "bytes.model.onnx": 1_500,
        "useful_token_share": 0.875,
    }


def test_markdown_shows_everything_and_breaks_no_table() -> None:
    text = reports.markdown("clean: clean/12ab", REPORT)
    assert text.startswith("# clean: clean/12ab\n")
    assert "| Items in | 2,000 |" in text
    assert "| too \\| long | 3 |" in text
    assert "| toy | BLEU | 97.5 | nrefs:1\\|case:mixed |" in text
    assert "| a\\|b |  | c d |" in text
    assert "## Nothing" not in text


def test_numbers_have_units_and_what_says_nothing_is_left_out() -> None:
    text = reports.markdown("clean: clean/12ab", REPORT)
    assert "| Items out | 1,860 pairs |" in text
    assert "| Seconds | 12.5 s |" in text
    assert "| Useful token share | 87.50% |" in text
    assert "| model.onnx | 1.5 kB |" in text
    assert not [word for word in ("Unit", "Nothing", "Monolingual", "Started from") if word in text]


def test_addresses_are_shown_without_their_passwords() -> None:
    address = f"http://nmt:{'sesame'}@example.org/{'a' * 60}"  # longer than a cell of a table
    text = reports.markdown(f"translated {address}", {"target": address, "inputs": [{"address": address}]})
    assert text.count(r"http\://nmt:\*\*\*@example.org/") == 3
    assert "sesame" not in text


def test_a_long_list_is_cut_and_says_so() -> None:
    text = reports.markdown("evaluate", {"samples": [{"source": str(n)} for n in range(210)]})
    assert "| 199 |" in text
    assert "| 200 |" not in text
    assert "... and 10 more" in text


def test_sizes_are_for_people() -> None:
    assert [reports.size(count) for count in (0, 999, 1_500, 2_500_000, 3e9, 4.2e15)] == [
        "0 B",
        "999 B",
        "1.5 kB",
        "2.5 MB",
        "3.0 GB",
        "4200.0 TB",
    ]
