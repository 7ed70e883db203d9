"""A better model that is much slower than the champion does not take its place."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from mlflow.tracking import MlflowClient

from flows.register import Candidate, register_model
from flows.settings import Settings
from flows.summary import RegisteredModel
from nmt_core.artifacts import REPORT, Artifact
from nmt_core.config import CorpusConfig, ModelConfig, PipelineConfig, SearchConfig, ToyCorpusConfig
from nmt_core.export.speed import SpeedTest
from nmt_core.models.transformer import Transformer
from nmt_core.tokenizer.tokenizer import Tokenizer

MANY_TIMES_SLOWER = ModelConfig(d_model=512, d_ff=4096, num_heads=8, encoder_layers=3, decoder_layers=3)
SEARCH = SearchConfig(beam_size=1, max_length_offset=4)
LINES = ["the cat sees a dog.", "a big house", "the dog runs to it and sees a small cat"] * 20


@pytest.fixture(scope="module")
def slow_bundle(tiny_tokenizer: Tokenizer, bundle_of: Callable[[Transformer], Path]) -> Path:
    torch.manual_seed(1)
    return bundle_of(Transformer(MANY_TIMES_SLOWER, tiny_tokenizer.vocab_size, 2_048).eval())


class Registry:
    """An empty registry, to which models are taken in the order of their scores."""

    def __init__(self, folder: Path) -> None:
        settings = Settings.load({"NMT_HOME": str(folder)})
        settings.prepare()
        self.uri = settings.mlflow_tracking_uri
        self.folder = folder
        self.client = MlflowClient(self.uri)
        self.experiment = self.client.create_experiment("register", (folder / "files").as_uri())

    def register(self, bundle: Path, score: float, max_slowdown: float = 0.2) -> RegisteredModel:
        folder = self.folder / f"evaluate-{score}"
        folder.mkdir()
        scores = [{"test_set": "toy", "metric": "BLEU", "score": score, "signature": ""}]
        (folder / REPORT).write_text(json.dumps({"scores": scores}))
        export, evaluate = Artifact("export", "1" * 32, bundle), Artifact("evaluate", f"{score:032.0f}", folder)
        candidate = Candidate(export, evaluate, speed_test=SpeedTest(LINES, SEARCH))
        config = PipelineConfig.model_validate(
            {
                "name": "test",
                "corpus": CorpusConfig(toy=ToyCorpusConfig()),
                "search": SEARCH,
                "registry": {"max_slowdown": max_slowdown},
            }
        )
        run = self.client.create_run(self.experiment).info.run_id
        return register_model(config, candidate, self.uri, run, {})


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    for name in ("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "MLFLOW_HTTP_REQUEST_TIMEOUT", "MLFLOW_DISABLE_TELEMETRY"):
        monkeypatch.setenv(name, "")  # so that what `prepare` sets is taken back
    return Registry(tmp_path)


def test_only_a_model_that_is_fast_enough_takes_the_champions_place(
    registry: Registry, tiny_bundle: Path, slow_bundle: Path
) -> None:
    assert registry.register(tiny_bundle, 10).verdict == "the first champion"
    slower = registry.register(slow_bundle, 20)
    assert slower.aliases == ["challenger"]
    assert slower.verdict.startswith("stays challenger: 0.")
    assert slower.verdict.endswith(
        "times as many tokens per second as version 1 on this machine, and registry.max_slowdown=0.2 is allowed"
    )
    allowed = registry.register(slow_bundle, 30, max_slowdown=1.0)
    assert "champion" in allowed.aliases
    assert allowed.verdict.startswith("replaces version 1: BLEU 30.00 is above 10.00; 0.")
    faster = registry.register(tiny_bundle, 40)
    assert "champion" in faster.aliases


def test_a_champion_that_can_no_longer_be_read_is_not_compared(registry: Registry, tiny_bundle: Path) -> None:
    registry.register(tiny_bundle, 10)
    (config,) = registry.folder.glob("files/**/bundle/config.json")
    config.write_text(config.read_text().replace('"format":2', '"format":1'))
    replaced = registry.register(tiny_bundle, 20)
    assert "champion" in replaced.aliases
    assert "speed is not compared (" in replaced.verdict and "format 1 is unknown" in replaced.verdict
