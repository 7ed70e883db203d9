"""Description of a model in the registry."""

import json
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from flows.registry.candidate import Candidate
from flows.registry.marks import marks
from flows.registry.model_card import LONGEST_DESCRIPTION, model_card
from flows.registry.register import register_model
from flows.settings import Settings
from nmt_core.config import PipelineConfig
from nmt_core.corpus.index import INDEX, CorpusIndex, StoredCorpus
from nmt_core.store.artifacts import REPORT, Artifact


def download(folder: Path, licence: str) -> Artifact:
    web = StoredCorpus(role="train", name="web", licence=licence, citation="", url="", files=())
    index = CorpusIndex(corpora=(web,))
    (folder / INDEX).write_text(index.model_dump_json())
    return Artifact("download", "0" * 32, folder)


def recipe(**corpus: Any) -> PipelineConfig:
    values = {"name": "test", "description": "English to German.", "corpus": {"train": [{"name": "web"} | corpus]}}
    return PipelineConfig.model_validate(values)


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MlflowClient:
    """Client of its own database."""
    for name in ("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "MLFLOW_HTTP_REQUEST_TIMEOUT", "MLFLOW_DISABLE_TELEMETRY"):
        monkeypatch.setenv(name, "")  # so that what `prepare` sets is taken back
    settings = Settings.load({"NMT_HOME": str(tmp_path)})
    settings.prepare()
    return MlflowClient(settings.mlflow_tracking_uri)


def test_a_corrected_licence_reaches_the_model_that_is_registered_already(client: MlflowClient, tmp_path: Path) -> None:
    settings = Settings.load({"NMT_HOME": str(tmp_path)})
    (tmp_path / "text").mkdir()
    made = download(tmp_path / "text", licence="MIT")
    metrics = ("BLEU", "chrF++")  # MLflow accepts no + in the name of a tag
    scores = [{"test_set": "news", "metric": metric, "score": 30.0, "signature": "x"} for metric in metrics]
    (tmp_path / REPORT).write_text(json.dumps({"scores": scores, "must_translate": []}))
    candidate = Candidate(Artifact("export", "1" * 32, tmp_path), Artifact("evaluate", "2" * 32, tmp_path), made)
    client.create_registered_model("test", description="old card")
    client.create_model_version("test", str(tmp_path), tags=candidate.tags, description="old card")

    def register(licence: str, candidate: Candidate = candidate) -> list[str | None]:
        config = recipe(address="https://host.invalid/a", licence=licence)
        model = register_model(config, candidate, settings, "a run", {})
        assert (model.version, model.reused) == ("1", True)
        return [client.get_registered_model("test").description, client.get_model_version("test", "1").description]

    cards = register("CC0")
    config = recipe(address="https://host.invalid/a", licence="CC0")
    assert cards == [model_card(config, candidate, LONGEST_DESCRIPTION)] * 2
    assert register("MIT") == [card.replace("CC0", "MIT") for card in cards if card]
    client.update_registered_model("test", "by hand")
    client.update_model_version("test", "1", "by hand too")
    assert register("MIT") == ["by hand", "by hand too"]
    (mark,) = marks(settings.store).values()
    assert client.get_model_version("test", "1").tags["nmt.mark"] == mark.id, "registered again, it keeps its mark"
    assert client.get_model_version("test", "1").tags["nmt.chrF_.news"] == "30.00"
    assert mark.made_of == {"export": "1" * 32, "evaluate": "2" * 32}
    without_text = Candidate(candidate.export, candidate.evaluate)
    assert register("GPL", without_text) == ["by hand", "by hand too"], "the recipe alone knows less"
    assert register("GPL")[1] == (cards[1] or "").replace("CC0", "GPL")


@pytest.mark.cpu(12)
def test_what_mlflow_does_twice_after_a_lost_answer_is_there_once(
    make_registry: Any, tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client of MLflow repeats a request without an answer, even if it was carried out."""
    registry = make_registry(tmp_path)
    for name in ("create_registered_model", "create_model_version"):
        method = getattr(MlflowClient, name)

        def twice(client: MlflowClient, *values: Any, ask: Any = method, **named: Any) -> Any:
            ask(client, *values, **named)
            return ask(client, *values, **named)

        monkeypatch.setattr(MlflowClient, name, twice)
    config = registry.config()
    split = registry.split(own=registry.references(tiny_bundle))
    model = registry.register(registry.candidate(config, tiny_bundle, split), config)
    (version,) = registry.client.search_model_versions("name='test'")
    assert (model.version, sorted(model.aliases)) == (str(version.version), ["challenger", "champion"])
