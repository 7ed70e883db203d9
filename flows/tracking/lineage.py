"""Inputs and parameters of an MLflow run: its training text, and every option."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mlflow.entities import Dataset, DatasetInput, InputTag
from mlflow.utils.mlflow_tags import MLFLOW_DATASET_CONTEXT

from nmt_core.store.artifacts import Artifact


@dataclass(frozen=True)
class TextPart:
    """Pairs that a run reads, as a dataset for MLflow, which identifies datasets by name and digest together."""

    name: str
    digest: str
    """Digest of at most 36 characters."""
    context: Literal["training", "validation", "testing"]
    file: Path
    pairs: int

    def as_input(self) -> DatasetInput:
        """Return the dataset as an MLflow input."""
        dataset = Dataset(
            name=self.name,
            digest=self.digest,
            source_type="local",  # `mlflow.data.get_source` finds the file by a source of this form
            source=json.dumps({"uri": str(self.file)}),
            profile=json.dumps({"pairs": self.pairs}),
        )
        return DatasetInput(dataset, [InputTag(MLFLOW_DATASET_CONTEXT, self.context)])


def text_parts(split: Artifact) -> list[TextPart]:
    """Return the parts of a split.

    The prefix `test/` distinguishes a test set with the name `dev` from the part of that name.
    """
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
