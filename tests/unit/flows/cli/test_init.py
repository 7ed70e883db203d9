"""`nmt init` on the command line: its output, its recipes, its refusals, and its questions in a pipe."""

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import forked
from support.facts import raises
from support.until import patient

from flows.cli.init import prompting
from flows.display.progress import terminal
from nmt_core.advice.decisions import Question
from nmt_core.corpus import toy
from nmt_core.errors import ConfigError
from nmt_core.recipes.recipe import load_recipe

Nmt = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a table of text."""
    generated = toy.generate(pairs=1_500, seed=5, held_out=20)
    (tmp_path / "my-text.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in generated.train), encoding="utf-8")
    return tmp_path


@pytest.fixture
def own() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("NMT_", "PREFECT_"))}


@pytest.fixture
def nmt(zygote: forked.Zygote, folder: Path, own: dict[str, str]) -> Nmt:
    """Run a command in that folder."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with forked.start(zygote, arguments, cwd=folder, env=own, **pipes) as process:
            out, error = process.communicate(timeout=patient(120))
        return subprocess.CompletedProcess(arguments, process.returncode, out, error)

    return run


@pytest.mark.cpu(20)
def test_a_recipe_is_written_once_and_planned(nmt: Nmt, tmp_path: Path) -> None:
    done = nmt("init", "my-text.tsv")
    assert (done.returncode, done.stdout) == (0, "my-text.yaml\n"), done.stderr
    for fact in ("1,500 pairs, en to ko", "looked at all of it", "nmt plan my-text.yaml", "nmt run my-text.yaml"):
        assert fact in done.stderr
    config = load_recipe(str(tmp_path / "my-text.yaml"))
    assert config.corpus.train[0].address == "my-text.tsv"
    assert "never made here" in nmt("plan", "my-text.yaml").stdout
    again = nmt("init", "my-text.tsv")
    assert again.returncode == 1
    assert "my-text.yaml: exists already" in again.stderr
    assert nmt("init", "my-text.tsv", "--force").returncode == 0
    assert not (tmp_path / ".nmt" / "artifacts").exists()


@pytest.mark.cpu(20)
def test_questions_are_answered_in_a_pipe(folder: Path, own: dict[str, str]) -> None:
    command = [*forked.ANEW, "init", "my-text.tsv", "--ask", "-o", "asked.yaml"]
    # dev, test, hours, two vocabularies, size, updates, patience, metric
    answers = "60\n\n5\n400\n\nsmall\n1234\n\n\n"
    done = subprocess.run(
        command, input=answers, cwd=folder, env=own, capture_output=True, text=True, timeout=patient(120)
    )
    assert (done.returncode, done.stdout) == (0, "asked.yaml\n"), done.stderr
    config = load_recipe(str(folder / "asked.yaml"))
    assert (config.split.dev_pairs, config.tokenizer.vocab_size) == (60, 400)
    assert (config.model.d_model, config.train.max_updates) == (256, 1_234)
    assert "decides how large a model may be" in done.stderr


@pytest.mark.parametrize(
    ("answers", "facts"),
    [
        ("", ("--ask", "ended before the question split.dev_pairs", "leave out --ask")),
        ("many\n", ("split.dev_pairs", "'many' is not a number", "give one, such as 70")),
    ],
)
def test_an_answer_that_is_missing_or_wrong_ends_a_pipe(
    answers: str, facts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(answers))
    question = Question("split.dev_pairs", "Pairs to hold out", "because", "70", least=1)
    with raises(ConfigError, *facts):
        prompting(terminal(to_stderr=True))(question)


def test_a_person_is_asked_again(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Keyboard(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Keyboard("many\n\n"))
    question = Question("split.dev_pairs", "Pairs to hold out", "because", "70", least=1)
    assert prompting(terminal(to_stderr=True))(question) == "70"
    assert "'many' is not a number" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere.tsv",), "nowhere.tsv: no such file or folder"),
        (("my-text.tsv", "--languages", "english"), "--languages english: must be two ISO 639 codes"),
        (("my-text.tsv", "--languages", "en-eng"), "names one language twice"),
        (("my-text.tsv", "-o", "recipe.txt"), "recipe.txt: a recipe is a YAML file"),
        (("my-text.tsv", "opus:en-ko"), "opus:en-ko: beside files"),
        (("opus:Tatoeba/v1",), "names no languages"),
    ],
)
def test_an_error_is_the_last_line_and_nothing_is_written(
    nmt: Nmt, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = nmt("init", *arguments)
    assert done.returncode == 1
    assert message in done.stderr.splitlines()[-1]
    assert not list(tmp_path.glob("*.yaml"))
