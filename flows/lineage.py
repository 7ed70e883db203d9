"""What MLflow lists of a run: the text that it learnt from, and every knob."""

import json
from collections.abc import Mapping
from typing import Any

from flows.tracking import TextPart
from nmt_core.artifacts import Artifact


def text_parts(split: Artifact) -> list[TextPart]:
    """The parts of a split. `test/` keeps a test set that is called `dev` apart from the part of that name."""
    report = split.report()
    files = json.loads((split.path / "splits.json").read_text(encoding="utf-8"))
    digest, folder = split.fingerprint, split.path
    tests = [
        TextPart(f"test/{name}", digest, "testing", folder / file, report["tests"][name])
        for name, file in files["tests"].items()
    ]
    return [
        TextPart("train", digest, "training", folder / "train-*.parquet", report["items_out"]),
        TextPart("dev", digest, "validation", folder / files["dev"], report["dev"]),
        *tests,
    ]


def leaves(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Every knob by its dotted path."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            found |= leaves(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found
