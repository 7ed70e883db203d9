"""A registered model uses the CPU threads that it may."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flows.registry.pyfunc_model import TranslationModel


@pytest.mark.parametrize(("said", "threads"), [("3", 3), (None, 0), ("", 0), ("0", 0), ("many", 0)])
def test_its_threads_are_those_that_are_said_or_all(
    said: str | None, threads: int, tiny_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NMT_THREADS", raising=False)
    if said is not None:
        monkeypatch.setenv("NMT_THREADS", said)
    model: Any = TranslationModel()
    model.load_context(SimpleNamespace(artifacts={"bundle": str(tiny_bundle)}))
    assert model._translator.threads == (threads or len(os.sched_getaffinity(0)))
    assert len(model.predict(None, ["the cat sees a dog.", ""])) == 2
