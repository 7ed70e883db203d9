"""A registered model takes lines in every form that MLflow passes on, with options of the search for each call."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mlflow.exceptions import MlflowException
from mlflow.models.utils import _enforce_params_schema
from mlflow.types import ParamSchema

from flows.registry.pyfunc_model import TranslationModel
from flows.registry.register import _signature
from nmt_core.config import SearchConfig
from nmt_core.execution.cpus import usable_cpus
from nmt_core.translator import Translator

LINE = "the cat sees a dog."


def loaded(bundle: Path) -> Any:
    model: Any = TranslationModel()
    model.load_context(SimpleNamespace(artifacts={"bundle": str(bundle)}))
    return model


@pytest.fixture(scope="module")
def model(tiny_bundle: Path) -> Any:
    """A model that is loaded."""
    return loaded(tiny_bundle)


@pytest.fixture(scope="module")
def expected(model: Any) -> list[str]:
    """Translations of that line and of an empty one."""
    (text,) = model.predict(None, [LINE])
    assert text
    return [text, ""]


@pytest.mark.parametrize(("said", "threads"), [("3", 3), (None, 0), ("", 0), ("0", 0), ("many", 0)])
def test_its_threads_are_those_that_are_said_or_all(
    said: str | None, threads: int, tiny_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NMT_THREADS", raising=False)
    if said is not None:
        monkeypatch.setenv("NMT_THREADS", said)
    assert loaded(tiny_bundle)._translator.threads == (threads or usable_cpus())


@pytest.mark.parametrize(
    "given",
    [
        [LINE, ""],
        (LINE, None),
        [LINE, float("nan")],
        [LINE.encode(), b""],
        iter([LINE, ""]),
        np.array([LINE, ""]),
        np.array([LINE, None], dtype=object),
        np.array([[LINE], [""]]),
        pd.Series([LINE, None]),
        pd.Series([LINE, pd.NA]),
        pd.DataFrame({"anything": [LINE, ""]}),
        pd.DataFrame({"id": [1, 2], "text": [LINE, None]}),
        [{"text": LINE}, {"text": None}],
        {"text": [LINE, ""]},
    ],
)
def test_lines_come_in_many_forms(given: Any, model: Any, expected: list[str]) -> None:
    assert model.predict(None, given) == expected


def test_one_line_and_no_line(model: Any, expected: list[str]) -> None:
    assert model.predict(None, LINE) == expected[:1]
    assert model.predict(None, []) == []


def test_a_row_that_is_no_text_fails_no_other_row(model: Any, expected: list[str]) -> None:
    rows = [["a", "b"], LINE, 7, {"q": LINE}]
    found = model.predict(None, rows, {"output": "full"})
    assert [row["status"] for row in found][::3] == ["not_text", "not_text"]
    assert found[1]["text"] == expected[0]
    assert found[2]["text"] == model.predict(None, ["7"])[0]
    assert [row["text"] for row in found] == model.predict(None, rows)


def test_a_row_that_is_no_language_is_copied(model: Any, expected: list[str]) -> None:
    run = "QUJD" * 200
    found = model.predict(None, [run, f"{run} {LINE}"], {"output": "full"})
    assert (found[0]["text"], found[0]["status"]) == (run, "no_language")
    assert found[1]["text"] == f"{run} {expected[0]}"


def test_params_are_options_of_the_search(model: Any, tiny_bundle: Path) -> None:
    options = {"method": "sample", "n_best": 3, "precision": "fp32", "max_length_offset": 8}
    (found,) = model.predict(None, [LINE], options | {"output": "full", "seed": None})
    (right,) = Translator.load(tiny_bundle, SearchConfig(**options)).translate([LINE])  # type: ignore[arg-type]
    assert (found["text"], found["status"], found["tokens"]) == (right.text, right.status, right.tokens)
    assert found["score"] == pytest.approx(right.score)
    assert [other["text"] for other in found["n_best"]] == [right.text, *(other.text for other in right.alternatives)]
    assert model.predict(None, [LINE], options) == [right.text]


def test_a_glossary_is_a_list_of_terms(model: Any, expected: list[str]) -> None:
    word = LINE.split()[0]
    terms = [f"{word}\t학생", "dog"]
    assert "학생" in model.predict(None, [LINE], {"glossary": terms})[0]
    assert "학생" in model.predict(None, [LINE], {"glossary": np.array(terms)})[0]
    (found,) = model.predict(None, [LINE], {"glossary": terms, "output": "full"})
    assert found["terms"] == found["terms_kept"] >= 1
    assert model.predict(None, [LINE], {"glossary": None}) == model.predict(None, [LINE]) == expected[:1]


def test_mlflow_passes_a_glossary_on() -> None:
    schema = ParamSchema.from_json(json.dumps(_signature().params.to_dict()))
    passed = _enforce_params_schema({"glossary": ["cat\t학생", "dog"]}, schema)
    assert list(passed["glossary"]) == ["cat\t학생", "dog"]
    assert list(_enforce_params_schema({}, schema)["glossary"]) == []


@pytest.mark.parametrize(
    ("given", "params", "facts"),
    [
        ([LINE], {"beam_size": 0}, ["search.beam_size=0", "1"]),
        ([LINE], {"glossary": ["a\tb", "A\tc"]}, ["term 2", "'A'", "keep one"]),
        ([LINE], {"output": "html"}, ["output='html'", "'text' or 'full'"]),
        (pd.DataFrame({"id": [1], "line": [LINE]}), {}, ["id, line", "'text'"]),
        (pd.DataFrame([[LINE, LINE]], columns=["text", "text"]), {}, ["text, text", "one column"]),
        (np.array([[LINE, LINE]]), {}, ["(1, 2)", "one column"]),
        ([LINE], {"target_prefix": "\ud800"}, ["search.target_prefix", "pieces"]),
        ({"q": [LINE]}, {}, ["q", "'text'"]),
        (7, {}, ["7", "lines of text"]),
    ],
)
def test_a_mistake_is_explained(given: Any, params: dict[str, Any], facts: list[str], model: Any) -> None:
    with pytest.raises(MlflowException) as raised:
        model.predict(None, given, params)
    assert raised.value.error_code == "INVALID_PARAMETER_VALUE"
    assert all(fact in raised.value.message for fact in facts), raised.value.message


def test_the_target_language_of_a_model_for_many(
    into_many: Callable[..., Path], tiny_bundle: Path, tmp_path: Path, expected: list[str], model: Any
) -> None:
    bundle = into_many(tiny_bundle, tmp_path / "many", "source", ["en-ko", "ko-en"])
    many, translator = loaded(bundle), Translator.load(bundle)
    for to in ("ko", "en", "ko-en"):
        assert many.predict(None, [LINE], {"to": to}) == [translator.translate(LINE, to=to).text]
    with pytest.raises(MlflowException, match="no target language is named"):
        many.predict(None, [LINE], {"to": ""})
    with pytest.raises(MlflowException, match="to='de'"):
        many.predict(None, [LINE], {"to": "de"})
    assert model.predict(None, [LINE], {"to": "ko"}) == expected[:1]
