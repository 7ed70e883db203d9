"""Errors of users: one clear message, the right exit code, no incomplete artifact, and then the run resumes.

Most are caused in this process. A few of them are also run through the command line, which must report them in the same
way.
"""

import dataclasses
import gzip
import json
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
import zstandard
from typer.testing import CliRunner

from flows.cli.app import app
from nmt_core.config import PipelineConfig
from nmt_core.corpus import toy
from nmt_core.errors import NmtError
from nmt_core.recipes.recipe import load_recipe
from nmt_core.stages.stage import Job, Resources, SilentReporter, run_stage
from nmt_core.stages.table import stages_of
from nmt_core.store.artifacts import Artifact, Store

Statuses = Callable[[dict[str, Any]], dict[str, str]]

_LAUGHS = """<?xml version="1.0"?>
<!DOCTYPE tmx [<!ENTITY ha "ha"><!ENTITY haha "&ha;&ha;&ha;&ha;">]>
<tmx version="1.4"><body><tu><tuv xml:lang="en"><seg>&haha;</seg></tuv></tu></body></tmx>
"""
_TRACEBACK = "Traceback (most recent call last)"


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with parallel text, which no test changes."""
    folder = tmp_path_factory.mktemp("text")
    made = toy.generate(pairs=1_000, seed=1, held_out=20)
    for name, pairs in (("train", made.train), ("held-out", made.dev)):
        for position, language in enumerate(("en", "ko")):
            (folder / f"{name}.{language}").write_text("".join(f"{pair[position]}\n" for pair in pairs))
    lines = (folder / "train.ko").read_text().splitlines(keepends=True)
    (folder / "short.ko").write_text("".join(lines[:-1]))
    plain = (folder / "train.ko").read_bytes()
    (folder / "cut.gz").write_bytes(gzip.compress(plain)[:5_000])
    (folder / "cut.zst").write_bytes(zstandard.compress(plain)[:5_000])
    with zipfile.ZipFile(folder / "whole.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("train.ko", plain)
    (folder / "cut.zip").write_bytes((folder / "whole.zip").read_bytes()[:5_000])
    (folder / "empty.ko").write_bytes(b"")
    (folder / "page.ko.gz").write_bytes(b"<!DOCTYPE html><html><body>Not found</body></html>")
    (folder / "laughs.tmx").write_text(_LAUGHS)
    return folder


def write_recipe(file: Path, source: Path, target: Path, held_out: Path, **sections: Any) -> str:
    """Write a recipe with text from files, and return its path."""
    dev = {"name": "dev", "source": str(held_out / "held-out.en"), "target": str(held_out / "held-out.ko")}
    recipe: dict[str, Any] = {
        "name": "mine",
        "corpus": {
            "train": [{"name": "news", "source": str(source), "target": str(target)}],
            "dev": [dev],
            "test": [dev | {"name": "test"}],
        },
        "clean": {"expected_length_ratio": 2.0},
        "tokenizer": {"vocab_size": 600},
        "encode": {"max_length": 64},
        "model": {"d_model": 16, "d_ff": 32, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1},
        "train": {"max_updates": 10, "max_tokens": 1_024, "micro_batch_tokens": 1_024, "keep_checkpoints": 1},
        "average": {"checkpoints": 1},
    }
    file.write_text(yaml.safe_dump(recipe | sections), encoding="utf-8")
    return str(file)


@pytest.fixture
def recipe_file(tmp_path: Path, text: Path) -> str:
    """The path of a sound recipe."""
    return write_recipe(tmp_path / "mine.yaml", text / "train.en", text / "train.ko", text)


@pytest.fixture(scope="module")
def shared(make_nmt: Any, prefect_server: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The command line in a home that these tests share."""
    nmt = make_nmt(tmp_path_factory.mktemp("shared") / "home", prefect=prefect_server)
    yield nmt
    nmt.close()


def message(errors: str) -> str:
    """The one message on stderr."""
    assert _TRACEBACK not in errors
    assert errors.startswith("nmt: ")
    assert errors.count("\n") == 1, errors
    return errors


def half_made(home: Path) -> list[Path]:
    """Return the folders that are not an artifact and that no later run resumes from."""
    folders = [path for path in home.glob("artifacts/*/*") if path.is_dir() and path.name != "fetching"]
    whole = [path for path in folders if not path.name.endswith(".partial") and (path / "manifest.json").is_file()]
    resumable = [path for path in folders if path.parent.name == "train" and path.name.endswith(".partial")]
    return sorted(set(folders) - set(whole) - set(resumable))


def last_line(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    summary: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return summary


BEFORE_ANYTHING_RUNS = {
    "unknown recipe": (["quikstart"], ["'quikstart' is unknown", "did you mean 'quickstart'?"]),
    "no such recipe file": (["gone.yaml"], ["gone.yaml", "No such file", "give the path of a YAML file"]),
    "not YAML": (["{folder}/broken.yaml"], ["broken.yaml: not valid YAML", "line 3", "fix that line"]),
    "unknown section": (["{recipe}", "--set", "modle.d_ff=8"], ["modle is not a key", "did you mean 'model'?"]),
    "unknown key": (
        ["{recipe}", "--set", "model.d_modle=8"],
        ["model.d_modle is not a key", "did you mean 'd_model'?"],
    ),
    "not a number": (
        ["{recipe}", "--set", "train.max_updates=many"],
        ["train.max_updates='many'", "must be a whole number"],
    ),
    "out of bounds": (
        ["{recipe}", "--set", "train.max_updates=0"],
        ["train.max_updates=0", "must be at least 1"],
    ),
    "not a choice": (["{recipe}", "--set", "model.norm=both"], ["model.norm='both'", "'post' or 'pre'"]),
    "do not fit": (["{recipe}", "--set", "model.num_heads=3"], ["d_model=16", "num_heads=3", "change either"]),
    "no value": (["{recipe}", "--set", "model.norm"], ["--set model.norm", "must read section.key=value"]),
}


def refusal(call: Callable[[], object]) -> str:
    """The one line of the error that a call ends with."""
    with pytest.raises(NmtError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def broken_recipe(tmp_path: Path) -> Path:
    """A folder with a recipe that is no YAML."""
    (tmp_path / "broken.yaml").write_text("name: mine\ncorpus: [\n")
    return tmp_path


@pytest.mark.parametrize("fault", BEFORE_ANYTHING_RUNS)
def test_what_is_wrong_with_a_recipe_is_named(recipe_file: str, broken_recipe: Path, fault: str) -> None:
    words, expected = BEFORE_ANYTHING_RUNS[fault]
    recipe, *overrides = (word.format(recipe=recipe_file, folder=broken_recipe) for word in words if word != "--set")
    said = refusal(lambda: load_recipe(recipe, overrides))
    assert all(part in said for part in expected), said


@pytest.mark.parametrize(("command", "fault"), [("run", "unknown key"), ("run", "do not fit"), ("plan", "not YAML")])
def test_it_is_said_before_anything_runs(
    untouched: Any, recipe_file: str, broken_recipe: Path, command: str, fault: str
) -> None:
    words, expected = BEFORE_ANYTHING_RUNS[fault]
    arguments = [word.format(recipe=recipe_file, folder=broken_recipe) for word in words]
    said = message(untouched(command, *arguments, code=1).stderr)
    assert all(part in said for part in expected), said
    assert list(untouched.home.iterdir()) == []


def test_a_plan_misses_a_file_and_touches_nothing(untouched: Any, recipe_file: str) -> None:
    wrong = ["--set", "corpus.train.0.source=/nowhere/news.en"]
    said = message(untouched("plan", recipe_file, *wrong, code=1).stderr)
    assert "corpus news, source side: /nowhere/news.en: no such file" in said
    assert untouched("plan", recipe_file).stderr == ""
    assert list(untouched.home.iterdir()) == []


USAGE = {
    "unknown stage": ["stage", "polish", "{recipe}"],
    "unknown first stage": ["run", "{recipe}", "--from", "polish"],
    "unknown last stage": ["plan", "{recipe}", "--until", "polish"],
    "unknown stage to force": ["run", "{recipe}", "--force", "polish"],
    "unknown option": ["run", "{recipe}", "--polish"],
    "unknown command": ["polish"],
}


@pytest.mark.parametrize("fault", USAGE)
def test_wrong_usage_is_explained(tmp_path: Path, recipe_file: str, fault: str) -> None:
    home = tmp_path / "home"
    runner = CliRunner(env={"NMT_HOME": str(home)})
    done = runner.invoke(app, [word.format(recipe=recipe_file) for word in USAGE[fault]])
    assert done.exit_code == 2
    assert done.stderr.startswith("Usage: ")
    assert done.stderr.count("Error") == 1
    assert "polish" in done.stderr
    assert not home.exists()


@dataclasses.dataclass(frozen=True)
class Fault:
    """Fault that only the affected stage finds."""

    wrong: list[str]
    stage: str
    says: list[str]
    repaired: list[str] = dataclasses.field(default_factory=list)
    """Settings to use instead.

    Empty means that the text itself must change, so that there is nothing to resume from.
    """


IN_A_STAGE = {
    "missing file": Fault(
        ["corpus.train.0.source=/nowhere/news.en"],
        "download",
        ["corpus news, source side: /nowhere/news.en: no such file", "correct the path"],
    ),
    "wrong checksum": Fault(
        ["corpus.train.0.source_sha256=" + "ab" * 32],
        "download",
        [
            "corpus news, source side: {text}/train.en has sha256",
            f"but {'ab' * 32} is expected",
            "fetch the file again",
        ],
    ),
    "unequal lengths": Fault(
        ["corpus.train.0.target={text}/short.ko"],
        "clean",
        ["corpus news", "{text}/train.en", "{text}/short.ko", "1,000 lines", "999", "the same release"],
    ),
    "truncated gz": Fault(
        ["corpus.train.0.target={text}/cut.gz"],
        "clean",
        ["corpus news", "{text}/cut.gz: the gz file is truncated or damaged", "fetch it again"],
    ),
    "truncated zst": Fault(
        ["corpus.train.0.target={text}/cut.zst"],
        "clean",
        ["corpus news", "{text}/cut.zst: the zst file is truncated or damaged", "fetch it again"],
    ),
    "truncated zip": Fault(
        ["corpus.train.0.target={text}/cut.zip"],
        "clean",
        ["corpus news", "{text}/cut.zip", "truncated or damaged", "fetch it again"],
    ),
    "empty file": Fault(
        ["corpus.train.0.target={text}/empty.ko"],
        "clean",
        ["corpus news, target side: {text}/empty.ko: the file is empty", "fetch it again, or name one"],
    ),
    "HTML page": Fault(
        ["corpus.train.0.target={text}/page.ko.gz"],
        "clean",
        ["corpus news, target side: {text}/page.ko.gz", "HTML page"],
    ),
    "languages swapped": Fault(
        ["languages.source=ko", "languages.target=en"],
        "clean",
        ["corpus news: in ", "the source side is in the target language", "swap `source` and `target`"],
        ["languages.source=en", "languages.target=ko"],
    ),
    "TMX with entities": Fault(
        ["corpus.train=[{{name: news, address: {text}/laughs.tmx}}]"],
        "clean",
        ["corpus news", "{text}/laughs.tmx", "entit"],
    ),
    "nothing left": Fault(
        ["clean.min_words=140"],
        "clean",
        ["none of the 1,000 pairs is left", "'too_few_words' dropped most", "corpus news, line ", "clean.min_words"],
        ["clean.min_words=2"],
    ),
    "vocabulary too large": Fault(
        ["tokenizer.vocab_size=64000"],
        "tokenizer",
        ["tokenizer.vocab_size=64000 does not fit", "pairs of text: set it to", "or less, or give more text"],
        ["tokenizer.vocab_size=650"],
    ),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which these tests run stages in this process."""
    return tmp_path_factory.mktemp("stages")


def make_until(config: PipelineConfig, last: str, home: Path) -> tuple[dict[str, str], Artifact]:
    """Run the stages up to one in this process. Return the outcome of each, and the artifact of the last."""
    made: dict[str, Artifact] = {}
    became: dict[str, str] = {}
    while last not in made:
        stage = stages_of(config)[len(made)]
        inputs = {need: made[need] for need in stage.needs}
        outcome = run_stage(stage, config, Store(home / "artifacts"), inputs, Job(SilentReporter(), Resources()))
        made[stage.name], became[stage.name] = outcome.artifact, "reused" if outcome.reused else "done"
    return became, made[last]


@pytest.mark.parametrize("name", IN_A_STAGE)
def test_a_fault_that_a_stage_meets_costs_that_stage_alone(home: Path, recipe_file: str, text: Path, name: str) -> None:
    fault = IN_A_STAGE[name]
    wrong = load_recipe(recipe_file, [value.format(text=text) for value in fault.wrong])
    said = refusal(lambda: make_until(wrong, fault.stage, home))
    assert all(part.format(text=text) in said for part in fault.says), said
    assert half_made(home) == []
    if fault.repaired:
        became, _ = make_until(load_recipe(recipe_file, fault.repaired), fault.stage, home)
        assert became.pop(fault.stage) == "done"
        assert set(became.values()) == {"reused"}


def test_the_command_line_says_it_in_one_line_and_resumes(shared: Any, recipe_file: str, statuses: Statuses) -> None:
    fault, arguments = IN_A_STAGE["nothing left"], ["run", recipe_file, "--until", "clean"]
    said = message(shared(*arguments, "--set", *fault.wrong, code=1).stderr)
    assert all(part in said for part in fault.says), said
    assert half_made(shared.home) == []
    became = statuses(last_line(shared(*arguments, "--set", *fault.repaired, "--json")))
    assert became == {"download": "reused", "clean": "done"}


MAY_BE_SKIPPED = [
    "wrong checksum",
    "unequal lengths",
    "truncated gz",
    "truncated zst",
    "truncated zip",
    "empty file",
    "HTML page",
    "TMX with entities",
]


def test_bad_corpora_are_left_out_where_the_recipe_says_so(home: Path, recipe_file: str, text: Path) -> None:
    good = {"source": str(text / "train.en"), "target": str(text / "train.ko")}
    corpora, expected = [{"name": "good", **good}], {}
    for fault in MAY_BE_SKIPPED:
        name, (setting,) = fault.replace(" ", "-"), IN_A_STAGE[fault].wrong
        key, value = setting.format(text=text).split("=", 1)
        bad = yaml.safe_load(value)[0] if key == "corpus.train" else good | {key.rpartition(".")[2]: value}
        corpora.append(bad | {"name": name})
        expected[name] = [
            said.format(text=text).replace("corpus news", f"corpus {name}") for said in IN_A_STAGE[fault].says
        ]
    overrides = [f"corpus.train={json.dumps(corpora)}", "corpus.on_bad_corpus=skip"]
    _, cleaned = make_until(load_recipe(recipe_file, overrides), "clean", home)

    report = cleaned.report()
    assert report["items_in"] == 1_000
    assert report["skipped"].keys() == expected.keys()
    for name, parts in expected.items():
        assert all(part in report["skipped"][name] for part in parts), report["skipped"][name]
