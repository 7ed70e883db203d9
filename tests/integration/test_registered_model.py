"""The registered model where it will be used: with mlflow, numpy, onnxruntime and sentencepiece alone.

The commands are the commands of the guide `docs/how-to/use-a-model.md`.
"""

import importlib.metadata
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import venv
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from mlflow.tracking import MlflowClient
from support.keeper import mark
from support.until import patient, until

from flows.registry.candidate import Candidate
from flows.registry.register import register_model
from flows.servers.servers import answers
from flows.settings import Settings
from flows.tracking.mlflow_tracker import open_database
from nmt_core.config import CorpusConfig, PipelineConfig, RegistryConfig, SearchConfig, ToyCorpusConfig
from nmt_core.execution import processes
from nmt_core.store.artifacts import REPORT, Artifact
from nmt_core.translator import Translator

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "use-a-model.md"
QUICK = SearchConfig(beam_size=2, max_length_offset=8)
REQUIREMENTS = {"mlflow", "numpy", "sentencepiece", "sentencex", "ftfy", "pydantic", "onnxruntime", "ahocorasick-rs"}


def distributions(names: list[str]) -> dict[str, importlib.metadata.Distribution]:
    """Return the named distributions with everything that they require, as far as it is installed."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = list(names)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        for requirement in found[name].requires or []:
            if "extra ==" not in requirement:
                waiting.append(re.split(r"[^A-Za-z0-9._-]", requirement)[0])
    return found


@pytest.fixture(scope="session")
def there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Environment with the model's requirements and what they require, as `pip` would make it."""
    folder = tmp_path_factory.mktemp("there") / "environment"
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for distribution in distributions([*REQUIREMENTS, "onnxruntime-gpu"]).values():
        for top in {file.parts[0] for file in distribution.files or []} - {"..", "__pycache__"}:
            link = site / top
            if not link.exists():
                link.symlink_to(distribution.locate_file(top))
        for command in distribution.entry_points.select(group="console_scripts"):
            script = folder / "bin" / command.name
            script.write_text(f"#!{folder}/bin/python\nimport sys\n{_CALL.format(*command.value.split(':'))}\n")
            script.chmod(0o755)
    return folder


_CALL = "from {0} import {1}; sys.exit({1}())"


@pytest.fixture
def elsewhere(there: Path, tmp_path: Path) -> dict[str, str]:
    """Environment variables of a user who has that environment, no settings and no network."""
    dead = {"HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
    path = f"{there / 'bin'}{os.pathsep}{os.defpath}"
    return mark() | dead | {"PATH": path, "HOME": str(tmp_path), "MLFLOW_DISABLE_TELEMETRY": "true"}


LINES = ["the cat sees a dog.", "", "a big house", "\x07", "나는 학생이다."]


@dataclass(frozen=True)
class Registered:
    """A bundle that was registered as the pipeline does it."""

    tracking_uri: str
    folder: Path
    """Folder of the model, as MLflow keeps it."""
    expected: list[str]
    """Translations of the bundle on this machine."""


@pytest.fixture(scope="module")
def registered(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Registered:
    """Champion `quickstart`, with large weights. After only a few updates, a model would translate everything alike."""
    folder = tmp_path_factory.mktemp("registered")
    tracking_uri = f"sqlite:///{folder / 'mlflow.db'}"
    open_database(tracking_uri)
    client = MlflowClient(tracking_uri)
    experiment = client.create_experiment("register", (folder / "files").as_uri())
    allowed = RegistryConfig(contamination="allow", min_score=0)  # it was trained on nothing
    config = PipelineConfig(
        name="quickstart", corpus=CorpusConfig(toy=ToyCorpusConfig()), search=QUICK, registry=allowed
    )
    parity = {"compared_sentences": 1, "identical_beams": 1, "max_difference": 0.0}
    scores = [{"test_set": "toy", "metric": "BLEU", "score": 1.0, "signature": ""}]
    export, evaluate = (Artifact(stage, "1" * 32, folder / stage) for stage in ("export", "evaluate"))
    shutil.copytree(tiny_bundle, export.path)
    evaluate.path.mkdir()
    (export.path / REPORT).write_text(json.dumps(parity))
    (evaluate.path / REPORT).write_text(json.dumps({"scores": scores, "must_translate": []}))
    settings = Settings.load({"NMT_HOME": str(folder), "MLFLOW_TRACKING_URI": tracking_uri})
    run = client.create_run(experiment).info.run_id
    model = register_model(config, Candidate(export, evaluate), settings, run, {})
    assert "champion" in model.aliases
    (mlmodel,) = folder.glob("files/**/MLmodel")
    expected = [line.text for line in Translator.load(tiny_bundle, QUICK).translate(LINES)]
    assert all(expected[::2]) and expected[1::2] == ["", ""]
    return Registered(tracking_uri, mlmodel.parent, expected)


def guide(command: str) -> str:
    """Return the line of the guide that begins with a command, as a user copies it."""
    lines = [line.removeprefix("$ ") for line in GUIDE.read_text(encoding="utf-8").splitlines()]
    (found,) = [line for line in lines if line.startswith(command)]
    return found


@pytest.mark.slow
def test_a_pulled_champion_translates_where_only_its_requirements_are_installed(
    registered: Registered, there: Path, elsewhere: dict[str, str], tmp_path: Path
) -> None:
    address = elsewhere | {"MLFLOW_TRACKING_URI": registered.tracking_uri}
    pull = guide("mlflow artifacts download")
    subprocess.run(
        ["bash", "-c", pull], cwd=tmp_path, env=address, check=True, capture_output=True, timeout=patient(120)
    )
    another_version(tmp_path / "my-model", tmp_path / "other")
    code = f"""
import mlflow
model, other = mlflow.pyfunc.load_model("my-model"), mlflow.pyfunc.load_model("other")
lines = model.predict([*{LINES!r}, None])
(full,) = model.predict({LINES!r}[:1], params={{"output": "full", "beam_size": 1}})
loud = other.predict({LINES!r})
import importlib.util, json, os, sys
assert os.environ["ORT_DISABLE_TELEMETRY"] == "1", "the code that comes with the model sets it"
absent = ("torch", "prefect", "polars", "flows", "filelock", "nmt_core")
missing = [name for name in absent if not importlib.util.find_spec(name)]
packages = [m.__file__ for n, m in sys.modules.items() if n.startswith("nmt_core_") and "." not in n]
print(json.dumps([lines, full, loud, packages, missing]))
"""
    command = [there / "bin" / "python", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=elsewhere, capture_output=True, text=True, timeout=patient(120))
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    lines, full, loud, packages, missing = json.loads(done.stdout.splitlines()[-1])
    assert lines == [*registered.expected, ""]
    assert full["status"] in ("ok", "unfinished") and full["score"] < 0 and full["tokens"] > 0
    assert loud == [line.upper() for line in registered.expected], "each version runs its own code"
    assert [str(tmp_path / folder) in package for folder, package in zip(("my-model", "other"), packages, strict=True)]
    assert missing == ["torch", "prefect", "polars", "flows", "filelock", "nmt_core"]


LOUD = """
from dataclasses import replace
_plain = Translator.translate
Translator.translate = lambda self, lines, **more: [replace(one, text=one.text.upper()) for one in _plain(self, lines)]
"""


def another_version(model: Path, folder: Path) -> None:
    """Make a copy of a model whose code belongs to another version, which shouts."""
    shutil.copytree(model, folder)
    (package,) = (folder / "code").glob("nmt_core_*")
    name = package.name[:-4] + "beef"
    for file in folder.rglob("*.py"):
        file.write_text(file.read_text().replace(package.name, name))
    file = package / "translator.py"
    file.write_text(f"{file.read_text()}\n{LOUD}")
    package.rename(package.with_name(name))


def test_mlflow_serves_the_champion_as_the_guide_says(
    registered: Registered, elsewhere: dict[str, str], free_port: int, tmp_path: Path
) -> None:
    serve, ask = (guide(command).replace("5001", str(free_port)) for command in ("mlflow models serve", "curl"))
    shutil.copytree(registered.folder, tmp_path / "my-model")
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(shlex.split(serve), cwd=tmp_path, env=elsewhere, stdout=log, stderr=log)
    try:
        until(lambda: answers(f"http://127.0.0.1:{free_port}/ping") or server.poll() is not None)
        assert server.poll() is None, (tmp_path / "log").read_text()
        (asked,) = re.findall(r"'(\{.*\})'", ask)
        ask = ask.replace(asked, json.dumps({"inputs": [*LINES, None], "params": {"n_best": 1}}, ensure_ascii=False))
        done = subprocess.run(["bash", "-c", ask], env=elsewhere, capture_output=True, text=True, timeout=patient(120))
    finally:
        processes.end(server, grace=10)
    assert json.loads(done.stdout) == {"predictions": [*registered.expected, ""]}, done.stderr
    assert list(json.loads(asked)) == ["inputs"]


@pytest.mark.slow
@pytest.mark.cpu(40)
def test_a_service_answers_with_the_champion_takes_over_the_next_and_loses_no_request(
    registered: Registered, tmp_path: Path
) -> None:
    environment = os.environ | {"NMT_HOME": str(tmp_path), "MLFLOW_TRACKING_URI": registered.tracking_uri}
    command = [Path(sys.executable).with_name("nmt"), "serve", "models:/quickstart@champion", "--port", "0"]
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen([*command, "--reload", "0.5"], env=environment, stdout=log, stderr=log)
    try:
        log_text = (tmp_path / "log").read_text
        until(lambda: "/docs" in log_text() or server.poll() is not None)
        (address,) = re.findall(r"answers at (\S+)", log_text())
        with Clients(address) as clients:
            until(lambda: clients.answered["1"] > 20)
            client = MlflowClient(registered.tracking_uri)
            first = client.get_model_version_by_alias("quickstart", "champion")
            second = client.create_model_version("quickstart", first.source, run_id=first.run_id)
            client.set_registered_model_alias("quickstart", "champion", second.version)
            until(lambda: clients.answered["2"] > 20 or clients.lost)
        assert not clients.lost, log_text()
        assert "version 2 answers from now on" in log_text()
        with ThreadPoolExecutor() as pool:
            lines = [LINES[0]] * 1_000
            last = pool.submit(httpx.post, f"{address}/translate", json={"text": lines}, timeout=patient(60))
            until(lambda: "nmt_waiting_lines 0.0" not in httpx.get(f"{address}/metrics", timeout=patient(60)).text)
            server.send_signal(signal.SIGTERM)
            assert len(last.result().json()["translations"]) == 1_000, "what runs is answered before the end"
        assert server.wait(patient(60)) == 143
        assert not list((tmp_path / "copies").glob("*")), "the copies of both versions are gone"
    finally:
        processes.end(server, grace=10)


class Clients:
    """Run clients that request the same translation again and again, until the block ends."""

    def __init__(self, address: str, count: int = 4) -> None:
        self.answered: Counter[str] = Counter()
        """Answers by version of the model."""
        self.lost: list[str] = []
        """Requests that were begun and got no good answer."""
        self._address = address
        self._enough = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(count)]

    def __enter__(self) -> "Clients":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._enough.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        with httpx.Client(timeout=patient(60)) as client:
            while not self._enough.is_set():
                try:
                    answer = client.post(f"{self._address}/translate", json={"text": LINES[0]}).raise_for_status()
                    self.answered[answer.json()["version"]] += 1
                except httpx.HTTPError as error:
                    self.lost.append(repr(error))
                    return


def test_the_model_says_what_it_needs_and_where_it_comes_from(finished: tuple[Any, dict[str, Any]]) -> None:
    nmt, summary = finished
    folder = next(nmt.home.glob("mlflow/**/MLmodel")).parent
    requirements = (folder / "requirements.txt").read_text().split()
    assert {line.split("==")[0] for line in requirements} == REQUIREMENTS
    assert all("==" in line for line in requirements)
    assert {path.name for path in (folder / "artifacts" / "bundle").iterdir()} == {
        "fp32",
        "int8",
        "spm.model",
        "config.json",
        "search.json",
        "profile.json",
    }
    of_first = "select key, value from model_version_tags where version = 1 and name = 'quickstart'"
    tags = dict(nmt.select("mlflow.db", of_first))
    fingerprints = {stage["name"]: stage["fingerprint"] for stage in summary["stages"]}
    assert tags["nmt.export"] == fingerprints["export"]
    assert tags["nmt.evaluate"] == fingerprints["evaluate"]
    assert (tags["nmt.average"], tags["nmt.tokenizer"]) == (fingerprints["average"], fingerprints["tokenizer"])
    assert float(tags["nmt.score"]) == pytest.approx(summary["metrics"][0]["score"], abs=1e-3)
    assert tags["prefect.flow_run_id"] == summary["prefect_flow_run_id"]
