"""`nmt init` on the command line: what it prints, writes and refuses, and its questions in a pipe."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support import forked
from support.until import patient

from nmt_core.corpus import toy
from nmt_core.recipes.recipe import load_recipe

Nmt = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def nmt(zygote: forked.Zygote, tmp_path: Path) -> Nmt:
    """Runs a command in a folder that holds a table of text."""
    generated = toy.generate(pairs=1_500, seed=5, held_out=20)
    (tmp_path / "my-text.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in generated.train), encoding="utf-8")
    own = {name: value for name, value in os.environ.items() if not name.startswith(("NMT_", "PREFECT_"))}

    def run(*arguments: str, answers: str = "") -> subprocess.CompletedProcess[str]:
        (tmp_path / "answers").write_text(answers)
        with (tmp_path / "answers").open() as given:
            pipes = {"stdin": given, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            with forked.start(zygote, arguments, cwd=tmp_path, env=own, **pipes) as process:
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
def test_questions_are_answered_in_a_pipe(nmt: Nmt, tmp_path: Path) -> None:
    # dev, test, hours, two vocabularies, size, updates, patience, metric
    done = nmt("init", "my-text.tsv", "--ask", "-o", "asked.yaml", answers="60\n\n5\n400\n\nsmall\n1234\n\n\n")
    assert (done.returncode, done.stdout) == (0, "asked.yaml\n"), done.stderr
    config = load_recipe(str(tmp_path / "asked.yaml"))
    assert (config.split.dev_pairs, config.tokenizer.vocab_size) == (60, 400)
    assert (config.model.d_model, config.train.max_updates) == (256, 1_234)
    assert "decides how large a model may be" in done.stderr
    assert "decides how large a model may be" not in done.stdout
    few = nmt("init", "my-text.tsv", "--ask", "-o", "few.yaml", answers="60\n")
    assert few.returncode == 1
    assert "--ask: the answers ended before the question split.test_pairs" in few.stderr
    wrong = nmt("init", "my-text.tsv", "--ask", "-o", "few.yaml", answers="many\n")
    assert "split.dev_pairs: 'many' is not a number" in wrong.stderr
    assert not (tmp_path / "few.yaml").exists()


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
