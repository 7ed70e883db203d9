"""Every recurrent model through every stage, at toy size: trained, exported, scored, registered, translating."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SHARED = {
    "architecture": "rnn",
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "tied_embeddings": "none",
    "rnn.hidden_size": 32,
    "rnn.alignment_size": 32,
    "rnn.maxout_size": 32,
}
ONE_WAY = {"rnn.bidirectional": "false"}
DEEP_LSTM = ONE_WAY | {"rnn.cell": "lstm", "encoder_layers": 2, "decoder_layers": 2}
KINDS: dict[str, dict[str, Any]] = {
    "encoder-decoder": ONE_WAY | {"rnn.attention": "none"},
    "sequence-to-sequence": DEEP_LSTM | {"rnn.attention": "none", "rnn.context": "first state"},
    "search": {},
    "dot": DEEP_LSTM | {"rnn.attention": "dot"},
}
ADADELTA = {"optimizer": "adadelta", "learning_rate_schedule": "constant", "max_gradient_norm": 1}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, make_nmt: Any) -> Iterator[Any]:
    """One home for all: text and vocabulary are made once."""
    nmt = make_nmt(tmp_path_factory.mktemp("recurrent"))
    yield nmt
    nmt.close()


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_trained_exported_scored_registered_and_translates(home: Any, tmp_path: Path, kind: str) -> None:
    knobs = {f"model.{name}": value for name, value in (SHARED | KINDS[kind]).items()}
    knobs |= {f"train.{name}": value for name, value in (ADADELTA if kind == "search" else {}).items()}
    knobs |= {"registry.model_name": kind, "export.precisions": "[fp32, fp16, int8]" if kind == "search" else "[fp32]"}
    summary = home.run(*(part for name, value in knobs.items() for part in ("--set", f"{name}={value}")))
    assert summary["status"] == "finished"
    assert summary["model"]["name"] == kind
    assert sorted(summary["model"]["aliases"]) == ["challenger", "champion"]
    reports = {
        stage["name"]: json.loads((Path(stage["artifact"]) / "report.json").read_text())
        for stage in summary["stages"]
        if stage.get("artifact")
    }
    assert reports["average"]["averaged_dev_loss"] < 6.6
    assert reports["export"]["identical_beams"] == reports["export"]["compared_sentences"] == 5
    assert reports["export"]["not_published"].keys() == ({"int8"} if kind == "search" else set())
    (tmp_path / "in").write_text("I am a student.\nYou see a dog.\n")
    model = ["--model", f"models:/{kind}@champion", "--input", str(tmp_path / "in"), "--output", str(tmp_path / "out")]
    home("translate", *model)
    assert len((tmp_path / "out").read_bytes().split(b"\n")) == 3
