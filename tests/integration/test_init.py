"""The first model of a new user from their own text: `nmt init`, `nmt plan` and `nmt run`, to a registered model."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.small import SMALL

from nmt_core.corpus import toy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.cpu(120)]

_SMALL = {name: value for name, value in SMALL.items() if not name.startswith(("corpus.toy.", "tokenizer."))}
"""Changes that make the training short. The vocabulary stays as it was advised."""


def test_three_commands_lead_to_a_registered_model(served: Any, tmp_path: Path) -> None:
    generated = toy.generate(pairs=2_000, seed=8, held_out=20)
    text, recipe = tmp_path / "my-text.tsv", tmp_path / "my-text.yaml"
    text.write_text("".join(f"{english}\t{korean}\n" for english, korean in generated.train), encoding="utf-8")
    assert served("init", str(text), "-o", str(recipe)).stdout == f"{recipe}\n"
    assert "never made here" in served("plan", str(recipe)).stdout
    small = [part for key, value in _SMALL.items() for part in ("--set", f"{key}={value}")]
    done = served("run", str(recipe), *small, "--json")
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["stages"]
    assert served("models", "my-text").stdout.startswith("version 1")


def test_without_a_network_opus_is_refused_in_one_line(served: Any) -> None:
    done = served("init", "opus:en-ko", code=1)
    assert "the list of OPUS needs the network" in done.stderr.splitlines()[-1]
    assert "nmt init text.en text.de" in done.stderr
