"""What a registered model says of itself."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from flows.candidate import Candidate
from flows.register import describe, register_model
from flows.settings import Settings
from nmt_core.artifacts import REPORT, Artifact
from nmt_core.config import PipelineConfig
from nmt_core.corpus.sources import INDEX, CorpusIndex, Role, StoredCorpus, StoredFile

CONFIG = PipelineConfig.model_validate(
    {"name": "test", "description": "English to German.", "corpus": {"toy": {}, "licence": "CC0"}}
)


def corpus(name: str, role: Role = "train", licence: str = "", citation: str = "", url: str = "") -> StoredCorpus:
    return StoredCorpus(role=role, name=name, licence=licence, citation=citation, url=url, files=())


def download(folder: Path, *corpora: StoredCorpus, **skipped: str) -> Artifact:
    index = CorpusIndex(corpora=corpora, on_bad_corpus="skip", skipped=skipped)
    (folder / INDEX).write_text(index.model_dump_json())
    return Artifact("download", "0" * 32, folder)


def recipe(**corpus: Any) -> PipelineConfig:
    values = {"name": "test", "description": "English to German.", "corpus": {"train": [{"name": "web"} | corpus]}}
    return PipelineConfig.model_validate(values)


def test_each_training_corpus_is_named_with_licence_page_and_citation(tmp_path: Path) -> None:
    made = download(
        tmp_path,
        corpus("web", licence="CC-BY 4.0", url="https://host.invalid", citation="@misc{them,\n  year = 2020}"),
        corpus("news", citation="@misc{them,\n  year = 2020}"),
        corpus("dev", "dev", licence="secret"),
        corpus("broken", licence="MIT", citation="@misc{nobody}"),
        gone="the server answered 404",
    )
    clean = Artifact("clean", "0" * 32, tmp_path / "clean")
    clean.path.mkdir()
    skipped = {"gone": "the server answered 404", "broken": "the file ends too early"}
    (clean.path / REPORT).write_text(json.dumps({"skipped": skipped}))

    assert describe(CONFIG, made, clean).splitlines() == [
        "English to German.",
        "",
        "Trained on:",
        "- web: CC-BY 4.0, https://host.invalid",
        "- news: CC0",
        "- gone: left out, for it could not be fetched or read",
        "- broken: left out, for it could not be fetched or read",
        "",
        "Please cite:",
        "- @misc{them, year = 2020}",
    ]


def test_a_description_fits_into_mlflows_database_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    many = [corpus(f"corpus{number}", licence="L" * 50, citation=f"{number} " * 500) for number in range(90)]

    text = describe(CONFIG, download(tmp_path, *many))

    assert 4_000 < len(text) <= 5_000
    assert text.endswith("- and more: see `corpora.json` of the download")
    assert text.count("and more") == 1


def test_without_the_download_the_recipe_speaks_alone() -> None:
    assert describe(CONFIG, None) == "English to German.\n\nLicence of the text: CC0"


def test_a_corpus_without_a_page_is_shown_with_its_addresses_and_the_licence_that_lies_in_its_archive(
    tmp_path: Path,
) -> None:
    address = "https://host.invalid/web.zip"
    with zipfile.ZipFile(tmp_path / "web.zip", "w") as archive:
        archive.writestr("LICENSE", "All rights reserved.")
    file = StoredFile(file="web.zip", sha256="", bytes=1, address=address, side="both")
    made = download(tmp_path, corpus("web").model_copy(update={"files": (file,)}))

    described = describe(recipe(address=address), made)

    assert described.endswith(f"- web: licence not stated (but its archive holds LICENSE), {address}")


def test_a_licence_that_the_recipe_corrects_is_corrected(tmp_path: Path) -> None:
    made = download(tmp_path, corpus("web", licence="MIT", citation="Them", url="https://host.invalid"))

    text = describe(recipe(address="https://host.invalid/a", licence="CC0", citation="Us"), made)

    assert "- web: CC0, https://host.invalid\n" in text
    assert text.endswith("Please cite:\n- Us")


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MlflowClient:
    """Of a database of its own."""
    for name in ("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "MLFLOW_HTTP_REQUEST_TIMEOUT", "MLFLOW_DISABLE_TELEMETRY"):
        monkeypatch.setenv(name, "")  # so that what `prepare` sets is taken back
    settings = Settings.load({"NMT_HOME": str(tmp_path)})
    settings.prepare()
    return MlflowClient(settings.mlflow_tracking_uri)


def test_a_corrected_licence_reaches_the_model_that_is_registered_already(client: MlflowClient, tmp_path: Path) -> None:
    settings = Settings.load({"NMT_HOME": str(tmp_path)})
    (tmp_path / "text").mkdir()
    made = download(tmp_path / "text", corpus("web", licence="MIT"))
    scores = [{"test_set": "news", "metric": "BLEU", "score": 30.0, "signature": "x"}]
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
    assert cards == [describe(recipe(address="https://host.invalid/a", licence="CC0"), made)] * 2
    assert register("MIT") == [card.replace("CC0", "MIT") for card in cards if card]
    client.update_registered_model("test", "by hand")
    client.update_model_version("test", "1", "by hand too")
    assert register("MIT") == ["by hand", "by hand too"]
    without_text = Candidate(candidate.export, candidate.evaluate)
    assert register("GPL", without_text) == ["by hand", "by hand too"], "the recipe alone knows less"
    assert register("GPL")[1] == (cards[1] or "").replace("CC0", "GPL")
