"""The command line: messages, exit codes, help, completion, and what commands import."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import forked
from support.until import patient
from typer.testing import CliRunner

from flows.cli.app import app

Nmt = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def nmt(zygote: forked.Zygote, tmp_path: Path) -> Nmt:
    """Run a command in a folder of the test."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("NMT_", "PREFECT_"))}

    def run(*arguments: str, anew: bool = False) -> subprocess.CompletedProcess[str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with forked.start(zygote, arguments, anew=anew, cwd=tmp_path, env=own, **pipes) as process:
            out, error = process.communicate(timeout=patient(60))
        return subprocess.CompletedProcess(arguments, process.returncode, out, error)

    return run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "quickstrat"), "recipe 'quickstrat' is unknown: did you mean 'quickstart'?"),
        (
            ("plan", "quickstart", "--set", "train.max_update=3"),
            "train.max_update is not a key: did you mean 'max_updates'?",
        ),
        (("run", "quickstart", "--set", "train.dropout"), "must read section.key=value"),
        (("run", "nowhere.yaml"), "recipe nowhere.yaml: cannot be read"),
        (("run", "quickstart", "--from", "train", "--until", "clean"), "--from train comes after --until clean"),
        (("run", "quickstart", "--force", "register"), "registered only once"),
        (("artifacts", "show", "12ab"), "artifact '12ab' in"),
        (("translate", "--model", "nowhere"), "model 'nowhere': no such folder"),
        (("report",), "run 'latest' in"),
        (("explain", "nowhere", "now"), "model 'nowhere': no such folder"),
        (
            ("import", "nowhere", "--to", "out", "--text", "dev.en"),
            "nowhere: no such file or folder: nothing is fetched",
        ),
        (("deploy", "nowhere.yaml", "--dry-run"), "recipe nowhere.yaml: cannot be read"),
    ],
)
def test_an_error_is_one_line_with_a_remedy(nmt: Nmt, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    done = nmt(*arguments)
    assert done.returncode == 1
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir()), "nothing is made before the input is checked"


def test_deploy_and_up_refuse_what_plan_refuses(nmt: Nmt, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("{name: mine, corpus: {train: [missing.tsv]}}")
    commands = (
        ("plan", "mine.yaml"),
        ("deploy", "mine.yaml"),
        ("deploy", "mine.yaml", "--dry-run"),
        ("up", "mine.yaml"),
    )
    refused = [nmt(*command) for command in commands]
    assert {done.returncode for done in refused} == {1}
    assert "missing.tsv: no such file" in refused[0].stderr
    assert {done.stderr.splitlines()[-1].partition("corpus ")[2] for done in refused} == {
        refused[0].stderr.splitlines()[-1].partition("corpus ")[2]
    }
    assert [file.name for file in tmp_path.iterdir()] == ["mine.yaml"], "nothing is made before the input is checked"


def test_debug_shows_the_traceback(nmt: Nmt) -> None:
    done = nmt("run", "nowhere", "--debug", anew=True)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("nmt: recipe 'nowhere' is unknown")


@pytest.mark.parametrize(
    "arguments",
    [(), ("run",), ("run", "quickstart", "--from", "nowhere"), ("run", "quickstart", "--force", "x"), ("fly",)],
)
def test_wrong_usage_exits_with_2(nmt: Nmt, arguments: tuple[str, ...]) -> None:
    assert nmt(*arguments).returncode == 2


def test_help_names_every_command_and_the_first_one_to_try(nmt: Nmt) -> None:
    text = nmt("--help").stdout
    assert "nmt run quickstart" in text
    commands = "run stage compare plan why recipes translate explain report promote rollback models artifacts"
    for command in (*commands.split(), "up", "deploy", "worker", "reconcile"):
        assert f" {command} " in text
    assert nmt("--version").stdout.startswith("nmt-pipeline ")
    assert "quickstart" in nmt("recipes").stdout


@pytest.mark.parametrize(
    "arguments", [["plan", "quickstart"], ["why", "train", "quickstart"], ["--help"], ["artifacts", "gc"]]
)
def test_what_only_looks_imports_nothing_heavy_and_touches_nothing(tmp_path: Path, arguments: list[str]) -> None:
    code = (
        "import sys; from flows.cli.app import main\n"
        f"sys.argv = ['nmt', *{arguments!r}]\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "print('heavy:', sorted({'torch', 'prefect', 'mlflow', 'onnxruntime'} & sys.modules.keys()))"
    )
    own = {name: value for name, value in os.environ.items() if not name.startswith(("NMT_", "MLFLOW_"))}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=own, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "heavy: []"
    assert not list(tmp_path.iterdir())


def test_a_plan_says_what_would_run_and_how_much_disk_it_takes(nmt: Nmt) -> None:
    text = nmt("plan", "quickstart", "--until", "encode").stdout
    assert "never made here" in text
    assert "skip" in text
    assert {"Forecast", "time", "memory", "disk", "estimate", "all"} <= set(text.split())
    assert "Free here: " in text


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("nmt run quic", {"quickstart"}),
        ("nmt plan quickstart --set train.max_up", {"train.max_updates="}),
        ("nmt run quickstart --until e", {"encode", "export", "evaluate"}),
        ("nmt run quickstart --force sp", {"split"}),
    ],
)
def test_the_shell_completes_recipes_stages_and_options(words: str, completed: set[str]) -> None:
    surroundings = {"_NMT_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = CliRunner().invoke(app, env=surroundings, prog_name="nmt")
    assert set(done.output.split()) == completed
