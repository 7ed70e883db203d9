"""The last step of a retraining: the exported bundle becomes a version of a registered MLflow model.

The version is `challenger`; it becomes `champion` if there is none, or if it scores higher on the same test set.
"""

import hashlib
import importlib.metadata
import shutil
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nmt_core
from flows.settings import without_password
from flows.start_from import tag_of
from flows.summary import RegisteredModel
from nmt_core.artifacts import MANIFEST, REPORT, Artifact, fingerprint_of
from nmt_core.config import PipelineConfig, SearchConfig
from nmt_core.corpus.sources import CorpusIndex, StoredCorpus, licence_files
from nmt_core.errors import ModelError

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion
    from mlflow.tracking import MlflowClient

    from nmt_core.export.speed import SpeedTest

CHALLENGER = "challenger"
CHAMPION = "champion"
SEARCH_FILE = "search.json"

_EXPORT_TAG = "nmt.export"
_EVALUATE_TAG = "nmt.evaluate"
_SCORE_TAG = "nmt.score"
_SCORED_ON_TAG = "nmt.scored_on"
_CARD_TAG = "nmt.card"
STARTED_FROM_TAG = "nmt.started_from"
_REMEDY = "see that it answers, then run the same command again; finished stages are kept"
_LONGEST_DESCRIPTION = 5_000  # characters; MLflow's database holds no more
_MORE = "- and more: see `corpora.json` of the download"
_EXAMPLE = ["A line of text.", "Another line."]

_PACKED_MODULES = (
    "__init__.py",
    "config.py",
    "errors.py",
    "codes.py",
    "bundle.py",
    "spelling.py",
    "translator.py",
    "tokenizer/__init__.py",
    "tokenizer/tokenizer.py",
    "search/__init__.py",
    "search/beam.py",
    "search/constraints.py",
    "search/greedy.py",
    "search/hypothesis.py",
    "search/long_lines.py",
    "search/methods.py",
    "search/sampling.py",
    "search/step.py",
    "search/translation.py",
    "search/onnx_step.py",
)
"""What `nmt_core.translator` needs of this package, and nothing else."""


@dataclass(frozen=True)
class Candidate:
    """A bundle and how good it is."""

    export: Artifact
    evaluate: Artifact
    download: Artifact | None = None
    """The text that it learnt from, for the licences; None: the store no longer has it."""
    clean: Artifact | None = None
    """The clean text, for the corpora that were left out; None: the store no longer has it."""
    made_of: Mapping[str, str] = field(default_factory=dict)
    """Fingerprints of its weights and its vocabulary by stage, for who starts from it."""
    started_from: str = ""
    """What its training started from; empty: random weights, or the store no longer knows."""
    speed_test: "SpeedTest | None" = None
    """On what to compare its speed with the champion's; None: on nothing."""

    @property
    def fingerprint(self) -> str:
        """Names the pair, which is one version; the card can change, and then the version keeps its number."""
        return fingerprint_of({"export": self.export.fingerprint, "evaluate": self.evaluate.fingerprint})

    @property
    def score(self) -> tuple[float, str]:
        """The first BLEU, and what it was computed on and how."""
        for score in self.evaluate.report().get("scores", []):
            if score["metric"] == "BLEU":
                return float(score["score"]), f"{score['test_set']} {score['signature']}"
        return 0.0, ""

    @property
    def tags(self) -> dict[str, str]:
        """Tags of the model version."""
        score, scored_on = self.score
        tags = {
            f"nmt.{s['metric']}.{s['test_set']}": f"{s['score']:.2f}" for s in self.evaluate.report().get("scores", [])
        }
        tags |= {_EXPORT_TAG: self.export.fingerprint, _EVALUATE_TAG: self.evaluate.fingerprint}
        tags |= {tag_of(stage): fingerprint for stage, fingerprint in self.made_of.items()}
        tags |= {STARTED_FROM_TAG: self.started_from} if self.started_from else {}
        return tags | {_SCORE_TAG: f"{score:.4f}", _SCORED_ON_TAG: scored_on}


def register_model(
    config: PipelineConfig, candidate: Candidate, tracking_uri: str, run_id: str, tags: Mapping[str, str]
) -> RegisteredModel:
    """Register a bundle, once: the same export with the same evaluation is one version, however often it is asked for.

    Its description follows the recipe: a licence that is corrected there is corrected here, and nothing else is done.

    Raises:
        ModelError: MLflow does not answer, or refuses.
    """
    import mlflow
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    name = config.model_name
    if not run_id:
        raise ModelError(without_password(f"register: MLflow at {tracking_uri} does not answer: {_REMEDY}"))
    try:
        client = MlflowClient(tracking_uri)
        version = _find(client, name, candidate)
        reused = version is not None
        about = describe(config, candidate.download, candidate.clean, candidate.started_from)
        card = {_CARD_TAG: hashlib.sha256(about.encode()).hexdigest()}
        if version is None:
            mlflow.set_tracking_uri(tracking_uri)
            with warnings.catch_warnings(), mlflow.start_run(run_id=run_id):
                warnings.simplefilter("ignore")
                model_id = _log_model(candidate.export, config.search)
            version = _create_version(client, name, about, model_id, run_id, candidate.tags | card | dict(tags))
        elif candidate.download and version.tags.get(_CARD_TAG) != card[_CARD_TAG]:
            _renew_card(client, version, about, card)
        client.set_registered_model_alias(name, CHALLENGER, version.version)
        verdict = _promote(client, version, candidate, config.registry.max_slowdown)
        aliases = list(client.get_model_version(name, version.version).aliases)
    except MlflowException as error:
        words = without_password(f"{tracking_uri} says: {' '.join(str(error).split())}")[:300]
        raise ModelError(f"register: MLflow at {words}: {_REMEDY}") from error
    return RegisteredModel(
        name=name,
        version=str(version.version),
        aliases=aliases,
        verdict=verdict,
        reused=reused,
        made_of=dict(candidate.made_of),
    )


def _find(client: "MlflowClient", name: str, candidate: Candidate) -> "ModelVersion | None":
    wanted = candidate.export.fingerprint, candidate.evaluate.fingerprint
    for version in client.search_model_versions(f"name='{name}'"):
        if (version.tags.get(_EXPORT_TAG), version.tags.get(_EVALUATE_TAG)) == wanted:
            return version
    return None


def _log_model(export: Artifact, search: SearchConfig) -> str:
    """Copy the bundle, the code that runs it and its search defaults into MLflow; return the logged model's id."""
    import mlflow
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, Schema

    text = Schema([ColSpec(DataType.string)])
    with tempfile.TemporaryDirectory(prefix="nmt-register-") as folder:
        bundle = Path(folder) / "bundle"
        shutil.copytree(export.path, bundle, ignore=shutil.ignore_patterns(MANIFEST, REPORT))
        (bundle / SEARCH_FILE).write_text(search.model_dump_json(indent=1), encoding="utf-8")
        logged = mlflow.pyfunc.log_model(
            name="model",
            python_model=str(Path(__file__).with_name("pyfunc_model.py")),
            artifacts={"bundle": str(bundle)},
            code_paths=[str(_packed_code(Path(folder) / "nmt_core"))],
            signature=ModelSignature(inputs=text, outputs=text),
            input_example=_EXAMPLE,
            pip_requirements=_requirements(),
        )
    return str(logged.model_id)


def _packed_code(folder: Path) -> Path:
    source = Path(nmt_core.__file__).parent
    for module in _PACKED_MODULES:
        (folder / module).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / module, folder / module)
    return folder


def _requirements() -> list[str]:
    """What the model needs, as installed here; the build of onnxruntime for GPUs is the same code by another name."""
    versions = {}
    for name in ("mlflow", "numpy", "sentencepiece", "pydantic", "onnxruntime", "onnxruntime-gpu"):
        try:
            versions[name.removesuffix("-gpu")] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return [f"{name}=={version}" for name, version in versions.items()]


def describe(
    config: PipelineConfig, download: Artifact | None, clean: Artifact | None = None, started_from: str = ""
) -> str:
    """What the recipe says of the model, then licence, page and citation of each corpus that it learnt from.

    Licences and citations are those of the recipe as it is now, and else what was known of the addresses.
    """
    about = config.description
    if started_from:
        about += f"\n\nIts training started from {started_from}: the text which that one learnt from counts as well."
    if not download:
        return f"{about}\n\nLicence of the text: {config.corpus.licence or 'not stated in the recipe'}"
    index = CorpusIndex.of(download)
    left_out = index.skipped | (clean.report()["skipped"] if clean else {})
    trained_on = [corpus.as_of(config.corpus) for corpus in index.of_role("train") if corpus.name not in left_out]
    lines = [f"- {', '.join(filter(None, (_licence_of(corpus, download), corpus.page)))}" for corpus in trained_on]
    lines += [f"- {name}: left out, for it could not be fetched or read" for name in left_out]
    citations = dict.fromkeys(" ".join(corpus.citation.split()) for corpus in trained_on if corpus.citation)
    lines += ["", "Please cite:", *(f"- {citation}" for citation in citations)] if citations else []
    parts = [about, "", "Trained on:", *lines]
    while len("\n".join(parts)) > _LONGEST_DESCRIPTION:
        parts = [*parts[:-2], _MORE] if parts[-1] == _MORE else [*parts[:-1], _MORE]
    return "\n".join(parts)


def _licence_of(corpus: StoredCorpus, download: Artifact) -> str:
    if corpus.licence:
        return f"{corpus.name}: {corpus.licence}"
    inside = ", ".join(licence_files(download, corpus))
    return f"{corpus.name}: licence not stated" + (f" (but its archive holds {inside})" if inside else "")


def _create_version(
    client: "MlflowClient", name: str, about: str, model_id: str, run_id: str, tags: Mapping[str, Any]
) -> "ModelVersion":
    if not client.search_registered_models(f"name='{name}'"):
        client.create_registered_model(name, description=about)
    return client.create_model_version(
        name, source=f"models:/{model_id}", run_id=run_id, tags=dict(tags), model_id=model_id, description=about
    )


def _renew_card(client: "MlflowClient", version: "ModelVersion", about: str, card: Mapping[str, str]) -> None:
    """Give a version the description that the recipe gives now; the model too, if it has that of this version."""
    model = client.get_registered_model(version.name)
    if model.description == version.description:
        client.update_registered_model(version.name, about)
    client.update_model_version(version.name, version.version, about)
    for tag, value in card.items():
        client.set_model_version_tag(version.name, version.version, tag, value)


def _promote(client: "MlflowClient", version: "ModelVersion", candidate: Candidate, max_slowdown: float) -> str:
    """Make the version champion if it should be; say why, or why not."""
    champion = _alias(client, version.name, CHAMPION)
    if champion and champion.version == version.version:
        return "is champion already"
    verdict = "the first champion"
    if champion:
        old, new = float(champion.tags.get(_SCORE_TAG, 0)), float(version.tags[_SCORE_TAG])
        if champion.tags.get(_SCORED_ON_TAG) != version.tags[_SCORED_ON_TAG]:
            return f"stays challenger: version {champion.version} was scored on another test set or in another way"
        if new <= old:
            return f"stays challenger: BLEU {new:.2f} is not above {old:.2f} of version {champion.version}"
        speed, slowdown = _speed_beside(champion, candidate)
        if slowdown > max_slowdown:
            return f"stays challenger: {speed}, and registry.max_slowdown={max_slowdown:g} is allowed"
        verdict = f"replaces version {champion.version}: BLEU {new:.2f} is above {old:.2f}{speed and '; '}{speed}"
    client.set_registered_model_alias(version.name, CHAMPION, version.version)
    return verdict


def _speed_beside(champion: "ModelVersion", candidate: Candidate) -> tuple[str, float]:
    """What a comparison with the champion's speed gave, in words, and how much slower the candidate is (0.2: 20%)."""
    import mlflow

    if not candidate.speed_test:
        return "", 0.0
    with tempfile.TemporaryDirectory(prefix="nmt-champion-") as folder:
        found = mlflow.artifacts.download_artifacts(f"models:/{champion.name}/{champion.version}", dst_path=folder)
        try:
            ratio = candidate.speed_test.ratio(candidate.export.path, Path(found, "artifacts/bundle"))
        except ModelError as error:  # as of a format that is no longer read
            return f"speed is not compared ({error})", 0.0
    return f"{ratio:.2f} times as many tokens per second as version {champion.version} on this machine", 1 - ratio


def _alias(client: "MlflowClient", name: str, alias: str) -> "ModelVersion | None":
    model = client.get_registered_model(name)
    return client.get_model_version(name, model.aliases[alias]) if alias in model.aliases else None
