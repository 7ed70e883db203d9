"""Model as MLflow loads it (models from code): this file and a few modules of nmt_core are packed with each model.

It runs without torch, Prefect and this package.
"""

import os
from pathlib import Path
from typing import Any

import mlflow
from mlflow.pyfunc.model import PythonModel, PythonModelContext

from nmt_core.execution.cpus import usable_cpus
from nmt_core.translator import Translator


class TranslationModel(PythonModel):  # type: ignore[misc]  # mlflow has no types
    """Model that translates lines of text."""

    def load_context(self, context: PythonModelContext) -> None:
        """Load the bundle, to translate on NMT_THREADS CPU threads, or on all CPUs that this process may use."""
        count = os.environ.get("NMT_THREADS", "")
        threads = int(count) if count.isdecimal() and int(count) else usable_cpus()
        self._translator = Translator.load(Path(context.artifacts["bundle"]), threads=threads, scores=False)

    def predict(
        self, context: PythonModelContext, model_input: list[str], params: dict[str, Any] | None = None
    ) -> list[str]:
        """Return one translation for each line."""
        return [translation.text for translation in self._translator.translate(model_input)]


mlflow.models.set_model(TranslationModel())
