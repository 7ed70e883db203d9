"""Model as MLflow loads it (models from code): a copy of this file and a few modules of nmt_core are packed with each.

It runs without torch, Prefect and this package.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
from mlflow.exceptions import MlflowException
from mlflow.pyfunc.model import PythonModel, PythonModelContext

_TEXT = "text"
"""Column of a table with the lines, if it has other columns too. It is also a value of the parameter `output`."""
_FULL = "full"
_NOT_TEXT = "not_text"
"""Status of a row that holds neither text nor a number. The other rows are translated."""


class TranslationModel(PythonModel):  # type: ignore[misc]  # mlflow has no types
    """Model that translates lines of text."""

    def load_context(self, context: PythonModelContext) -> None:
        """Load the bundle, to translate on NMT_THREADS CPU threads, or on all CPUs that this process may use."""
        # Only now: MLflow reads this file before it adds the packed code.
        from nmt_core.execution.cpus import usable_cpus
        from nmt_core.translator import Translator

        count = os.environ.get("NMT_THREADS", "")
        threads = int(count) if count.isdecimal() and int(count) else usable_cpus()
        self._translator = Translator.load(Path(context.artifacts["bundle"]), threads=threads, scores=False)

    # MLflow warns where the input has no type, and for most types it refuses all rows if one is null. Where an array is
    # announced it changes nothing, whatever is handed over.
    def predict(
        self, context: PythonModelContext, model_input: np.ndarray, params: dict[str, Any] | None = None
    ) -> list[Any]:
        """Return one translation for each line.

        Args:
            context: not used.
            model_input: a line, a sequence or array of lines, records with a key `text`, or a table with one column or
                with a column `text`. A missing line (None, NaN) is empty. A number is translated as it is written.
            params: options of the search, as in a recipe, for this call; `output`; `glossary`; and `to`. `output` is
                "text" for the translations alone, or "full" for a dictionary for each: text, score, status, tokens, and
                n_best and alignment if the search has them. `glossary` is a list of terms, each with its translation
                behind a tab, or without one if the term stays as it is. `to` is the target language of a model for many
                languages, such as "de", or a pair of languages, such as "en-de".

        Raises:
            MlflowException: a parameter is wrong, or the input has another form.
        """
        from nmt_core.errors import NmtError

        options = {name: value for name, value in (params or {}).items() if value is not None}
        output, glossary = options.pop("output", _TEXT), options.pop("glossary", ())
        to = str(options.pop("to", ""))
        if output not in (_TEXT, _FULL):
            raise MlflowException.invalid_parameter_value(f"output={output!r}: must be 'text' or 'full'")
        rows = [_line(value) for value in _rows(model_input)]
        try:
            translator = self._translator.with_search(scores=output == _FULL, **options)
            terms = [str(term) for term in ([glossary] if isinstance(glossary, str) else glossary)]
            translations = translator.translate([row or "" for row in rows], to=to, glossary=terms)
        except NmtError as error:
            raise MlflowException.invalid_parameter_value(str(error)) from None
        if output == _TEXT:
            return [translation.text for translation in translations]
        records = [translation.record() for translation in translations]
        return [
            record | ({"status": _NOT_TEXT} if row is None else {}) for record, row in zip(records, rows, strict=True)
        ]


def _rows(given: Any) -> Sequence[Any]:
    """Return the values of the lines, in any of the forms in which MLflow hands them over.

    Raises:
        MlflowException: the input has another form.
    """
    if isinstance(given, (str, bytes)):
        return [given]
    if hasattr(given, "columns"):  # a table of pandas
        names = list(given.columns)
        if len(names) != 1 and names.count(_TEXT) != 1:
            raise MlflowException.invalid_parameter_value(
                f"the table has the columns {', '.join(map(str, names))}: give one column, or call the lines 'text'"
            )
        return list(given[_TEXT] if _TEXT in names else given[names[0]])
    if isinstance(given, Mapping):
        if set(given) != {_TEXT}:
            raise MlflowException.invalid_parameter_value(
                f"the input has the keys {', '.join(map(str, given))}: give {{'text': [...]}}"
            )
        return _rows(given[_TEXT])
    if getattr(given, "ndim", 1) > 1 and given.shape[1:] != (1,):
        raise MlflowException.invalid_parameter_value(
            f"the array has the shape {tuple(given.shape)}: give one column of lines"
        )
    try:
        rows = list(given)
    except TypeError:
        from nmt_core.errors import shown

        raise MlflowException.invalid_parameter_value(f"the input is {shown(given)}: give lines of text") from None
    # A record is a row, and so is a row of an array with one column.
    return [_value(row) for row in rows]


def _value(row: Any) -> Any:
    """Return the line of a record with a key `text`, or of a row of one value. Other rows stay as they are."""
    if isinstance(row, Mapping):
        return row.get(_TEXT, row)
    return row[0] if hasattr(row, "__len__") and not isinstance(row, (str, bytes)) and len(row) == 1 else row


def _line(value: Any) -> str | None:
    """Return the text of a row, or None if it holds no text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # of pandas, which is not needed here
        return ""
    if not hasattr(value, "__len__") and hasattr(value, "__float__"):
        return "" if value != value else str(value)  # only NaN differs from itself
    return None


mlflow.models.set_model(TranslationModel())
