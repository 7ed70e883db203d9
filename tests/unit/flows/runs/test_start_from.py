"""Values of `start_from` are found in the registry and in the store, or the message names what is missing."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient
from support.published import identity_like

from flows.retention.garbage import garbage
from flows.runs.selection import Selection
from flows.runs.start_from import named_artifacts, resolved, tag_of
from flows.runs.summary import RegisteredModel, RunSummary, StageSummary
from flows.settings import Settings
from nmt_core.config import PipelineConfig
from nmt_core.errors import ConfigError, ModelError
from nmt_core.store.artifacts import Artifact, Identity, Manifest, describe_outputs, fingerprint_of, now

OF_WEIGHTS, OF_VOCABULARY, OF_TRAINING = (identity_like(stage, "0") for stage in ("average", "tokenizer", "train"))
OF_BUNDLE = identity_like("export", "0")
WEIGHTS, VOCABULARY, BUNDLE = map(fingerprint_of, (OF_WEIGHTS, OF_VOCABULARY, OF_BUNDLE))


def recipe(train: str = "", tokenizer: str = "") -> PipelineConfig:
    sections = {"train": {"start_from": train}, "tokenizer": {"start_from": tokenizer}}
    return PipelineConfig.model_validate({"name": "test", "corpus": {"toy": {}}} | sections)


def put(settings: Settings, identity: Identity) -> Artifact:
    """An empty artifact."""
    stage = identity["stage"]
    folder = settings.store.partial(stage, fingerprint_of(identity))
    folder.mkdir(parents=True)
    made = Manifest(
        stage=stage,
        fingerprint=fingerprint_of(identity),
        identity=identity,
        recipe="test",
        outputs=describe_outputs(folder),
        versions={},
        seconds=0,
        host="",
        created=now(),
    )
    return settings.store.publish(folder, made)


def ensemble(*members: str) -> PipelineConfig:
    return PipelineConfig.model_validate({"name": "test", "corpus": {"toy": {}}, "export": {"members": members}})


def distillation(*teachers: str) -> PipelineConfig:
    part = {"name": "made", "text": "parallel_source", "teachers": teachers}
    return PipelineConfig.model_validate({"name": "test", "corpus": {"toy": {}}, "synthesis": {"parts": [part]}})


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load({"NMT_HOME": str(tmp_path / "home")})


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Database with a model of two versions. The champion is made of what the tests put into their stores."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "MLFLOW_HTTP_REQUEST_TIMEOUT", "MLFLOW_DISABLE_TELEMETRY"):
            patch.setenv(name, "")  # so that what `prepare` sets is taken back
        settings = Settings.load({"NMT_HOME": str(tmp_path_factory.mktemp("registry"))})
        settings.prepare()
        client = MlflowClient(settings.mlflow_tracking_uri)
        client.create_registered_model("en-ko")
        tags = {tag_of("average"): WEIGHTS, tag_of("tokenizer"): VOCABULARY, tag_of("export"): BUNDLE}
        client.create_model_version("en-ko", "/nowhere", tags=tags)
        client.create_model_version("en-ko", "/nowhere")
        client.set_registered_model_alias("en-ko", "champion", "1")
    return settings.mlflow_tracking_uri


@pytest.fixture
def with_registry(registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_DISABLE_TELEMETRY", "PREFECT_HOME"):
        monkeypatch.setenv(name, "")
    return Settings.load({"NMT_HOME": str(tmp_path / "home"), "MLFLOW_TRACKING_URI": registry})


@pytest.mark.parametrize("address", ["models:/en-ko@champion", "models:/en-ko/1"])
def test_a_registered_model_is_its_weights_and_its_vocabulary(with_registry: Settings, address: str) -> None:
    weights, vocabulary = put(with_registry, OF_WEIGHTS), put(with_registry, OF_VOCABULARY)
    config = resolved(recipe(address, address), with_registry)
    assert config.train.start_from == str(weights.path)
    assert config.tokenizer.start_from == str(vocabulary.path)
    assert resolved(config, with_registry) == config


def test_a_teacher_is_the_bundle_of_a_registered_model(with_registry: Settings, tmp_path: Path) -> None:
    bundle = put(with_registry, OF_BUNDLE)
    for address in ("models:/en-ko@champion", "models:/en-ko/1", bundle.short, str(bundle.path)):
        config = resolved(distillation(address, str(tmp_path)), with_registry)
        assert config.synthesis.parts[0].teachers == (str(bundle.path), str(tmp_path))
        assert named_artifacts(config.model_dump(mode="json")) == {("export", bundle.fingerprint)}
    with pytest.raises(ModelError, match=r"synthesis\.parts\.0\.teachers=models:/en-ko/2: .* has no tag nmt\.export"):
        resolved(distillation("models:/en-ko/2"), with_registry)
    with pytest.raises(ConfigError, match=r"synthesis\.parts\.0\.teachers=average/0123: .*give export/FINGERPRINT"):
        resolved(distillation("average/0123"), with_registry)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("models:/en-ko@champion", rf"version 1 is average/{WEIGHTS}, which is no longer in .*home/artifacts: copy it"),
        ("models:/en-ko/2", r"version 2 has no tag nmt\.average, .*: give average/FINGERPRINT"),
        ("models:/en-ko@nobody", r"alias nobody not found.*`nmt run RECIPE` registers one"),
        ("models:/de-fr@champion", r"not found.*`nmt run RECIPE` registers one"),
    ],
)
def test_what_the_registry_cannot_give_is_told(with_registry: Settings, address: str, message: str) -> None:
    with pytest.raises(ModelError, match=f"(?s)train.start_from={address}: .*{message}"):
        resolved(recipe(address), with_registry)


def test_a_registry_that_is_not_there_is_not_made(settings: Settings) -> None:
    with pytest.raises(ModelError, match=r"does not exist yet, so no model is registered"):
        resolved(recipe("models:/en-ko@champion"), settings)
    assert not list(settings.home.glob("*.db"))


@pytest.mark.parametrize("address", ["models:/en-ko", "models:/en-ko@a@b", "models:/en-ko/latest", "models:en-ko/1"])
def test_another_form_of_address_is_refused(with_registry: Settings, address: str) -> None:
    with pytest.raises(ConfigError, match=r"must be models:/NAME@ALIAS or models:/NAME/VERSION"):
        resolved(recipe(address), with_registry)


def test_an_artifact_is_known_by_the_digits_that_are_shown(settings: Settings) -> None:
    made = {identity["stage"]: put(settings, identity) for identity in (OF_WEIGHTS, OF_TRAINING)}
    for artifact in made.values():
        for address in (artifact.short, f"{artifact.stage}/{artifact.fingerprint}"):
            assert resolved(recipe(address), settings).train.start_from == str(artifact.path)
    with pytest.raises(ConfigError, match=r"train\.start_from=average/f123: .*there is none"):
        resolved(recipe("average/f123"), settings)
    with pytest.raises(ConfigError, match=r"tokenizer\.start_from=average/.*: give tokenizer/FINGERPRINT"):
        resolved(recipe(tokenizer=made["average"].short), settings)
    with pytest.raises(
        ConfigError, match=r"train\.start_from=export/.*: give average/FINGERPRINT or train/FINGERPRINT"
    ):
        resolved(recipe("export/0123"), settings)


def test_a_path_becomes_absolute(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=rf"no such file or folder \(relative to {tmp_path}\)"):
        resolved(recipe("bundles/weights.safetensors"), settings)
    (tmp_path / "bundles").mkdir()
    (tmp_path / "bundles" / "weights.safetensors").touch()
    assert resolved(recipe("bundles/weights.safetensors"), settings).train.start_from == str(
        tmp_path / "bundles/weights.safetensors"
    )


def test_from_scratch_nothing_is_looked_up(settings: Settings) -> None:
    config = recipe()
    assert resolved(config, settings) is config
    code = (
        "import sys; from flows.runs.start_from import resolved; from flows.settings import Settings;"
        "from nmt_core.recipes.recipe import load_recipe; resolved(load_recipe('quickstart'), Settings.load());"
        "print({'mlflow', 'torch', 'prefect'} & set(sys.modules))"
    )
    environment = os.environ | {"NMT_HOME": str(settings.home)}
    assert subprocess.check_output([sys.executable, "-c", code], env=environment, text=True).strip() == "set()"
    assert not settings.home.exists()


def test_a_configuration_from_a_form_is_resolved_as_well(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    from flows.retraining import Retraining

    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_DISABLE_TELEMETRY", "PREFECT_HOME"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("NMT_HOME", str(settings.home))
    weights = put(settings, OF_WEIGHTS)
    run = Retraining(recipe(weights.short), Selection())
    assert run.config.train.start_from == run.summary.config["train"]["start_from"] == str(weights.path)


@pytest.fixture
def ran(settings: Settings) -> Callable[..., None]:
    """Write the summary of a run, and put its artifacts into the store."""

    def write(number: int, aliases: list[str], start_from: str = "") -> None:
        summary = RunSummary.begin(recipe(start_from), f"2026010{number}")
        made = [put(settings, identity_like(stage, f"{number}")) for stage in ("train", "average", "tokenizer")]
        made_of = {artifact.stage: artifact.fingerprint for artifact in made[1:]}
        for artifact in made:
            summary.stages.append(StageSummary(name=artifact.stage, fingerprint=artifact.fingerprint, status="done"))
        summary.model = RegisteredModel(name="en-ko", version="1", aliases=aliases, verdict="", made_of=made_of)
        summary.end(None)
        summary.write(settings.runs)

    return write


def rubbish(settings: Settings, keep_runs: int) -> set[str]:
    names = (Path(one.name) for one in garbage(settings, keep_runs, shared_days=30))
    return {f"{name.parent.name}/{name.name[0]}" for name in names}


def test_the_weights_of_champion_and_challenger_are_no_garbage(settings: Settings, ran: Any) -> None:
    ran(1, ["champion", "challenger"])
    ran(2, ["champion", "challenger"])
    ran(3, ["challenger"])
    ran(4, ["challenger"])
    old = {f"{stage}/{number}" for stage in ("average", "tokenizer") for number in (1, 3)}
    assert rubbish(settings, 0) == old | {f"train/{number}" for number in (1, 2, 3, 4)}
    assert rubbish(settings, 1) == old | {f"train/{number}" for number in (1, 2, 3)}


def test_what_a_kept_run_starts_from_is_no_garbage(settings: Settings, ran: Any) -> None:
    ran(1, [])
    (training,) = settings.store.newest("train", 1)
    ran(2, [], start_from=str(training.path))
    assert rubbish(settings, 1) == {"average/1", "tokenizer/1"}
    assert "train/1" in rubbish(settings, 0)


def test_members_of_an_ensemble_are_found_and_kept(with_registry: Settings) -> None:
    weights = put(with_registry, OF_WEIGHTS)
    config = resolved(ensemble("models:/en-ko@champion", weights.short), with_registry)
    assert config.export.members == (str(weights.path), str(weights.path))
    assert named_artifacts(config.model_dump(mode="json")) == {("average", WEIGHTS)}
    bundle = put(with_registry, OF_BUNDLE)
    with pytest.raises(ConfigError, match=r"export\.members=export/.*: give average/FINGERPRINT"):
        resolved(ensemble(bundle.short), with_registry)
