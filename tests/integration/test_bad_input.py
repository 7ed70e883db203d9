"""Faults of users and machines: one clear message, the right exit code, nothing half made, and then it goes on."""

import base64
import dataclasses
import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
import zstandard
from support.until import patient, until

from nmt_core.corpus import toy

Statuses = Callable[[dict[str, Any]], dict[str, str]]

_LAUGHS = """<?xml version="1.0"?>
<!DOCTYPE tmx [<!ENTITY ha "ha"><!ENTITY haha "&ha;&ha;&ha;&ha;">]>
<tmx version="1.4"><body><tu><tuv xml:lang="en"><seg>&haha;</seg></tuv></tu></body></tmx>
"""
_TRACEBACK = "Traceback (most recent call last)"


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with parallel text; nobody changes it."""
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
    """A recipe with text from files; its path."""
    dev = {"name": "dev", "source": str(held_out / "held-out.en"), "target": str(held_out / "held-out.ko")}
    recipe: dict[str, Any] = {
        "name": "mine",
        "corpus": {
            "train": [{"name": "news", "source": str(source), "target": str(target)}],
            "dev": [dev],
            "test": [dev | {"name": "test"}],
        },
        "clean": {"characters_per_character": 2.0},
        "tokenizer": {"vocab_size": 600},
        "encode": {"max_length": 64},
        "model": {"d_model": 16, "d_ff": 32, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1},
        "train": {"max_updates": 10, "max_tokens": 1_024, "slice_tokens": 1_024, "keep_checkpoints": 1},
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
    """Folders that are no artifact, and that no later run goes on with."""
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
    "not YAML": (["{folder}/broken.yaml"], ["broken.yaml: not valid YAML", "line 3", "mend that line"]),
    "unknown section": (["{recipe}", "--set", "modle.d_ff=8"], ["modle is not a key", "did you mean 'model'?"]),
    "unknown key": (
        ["{recipe}", "--set", "model.d_modle=8"],
        ["model.d_modle is not a key", "did you mean 'd_model'?"],
    ),
    "not a number": (["{recipe}", "--set", "train.max_updates=many"], ["train.max_updates='many'", "valid integer"]),
    "out of bounds": (
        ["{recipe}", "--set", "train.max_updates=0"],
        ["train.max_updates=0", "greater than or equal to 1"],
    ),
    "not a choice": (["{recipe}", "--set", "model.norm=both"], ["model.norm='both'", "'post' or 'pre'"]),
    "do not fit": (["{recipe}", "--set", "model.num_heads=3"], ["d_model=16", "num_heads=3", "change either"]),
    "no value": (["{recipe}", "--set", "model.norm"], ["--set model.norm", "must read section.key=value"]),
}


@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize("fault", BEFORE_ANYTHING_RUNS)
def test_what_is_wrong_with_a_recipe_is_said_before_anything_runs(
    untouched: Any, recipe_file: str, tmp_path: Path, command: str, fault: str
) -> None:
    (tmp_path / "broken.yaml").write_text("name: mine\ncorpus: [\n")
    words, expected = BEFORE_ANYTHING_RUNS[fault]
    arguments = [word.format(recipe=recipe_file, folder=tmp_path) for word in words]
    said = message(untouched(command, *arguments, code=1).stderr)
    assert all(part in said for part in expected), said
    with_traceback = untouched(command, *arguments, "--debug", code=1).stderr
    assert with_traceback.count(_TRACEBACK) == 1
    assert with_traceback.endswith(said)
    assert list(untouched.home.iterdir()) == []


def test_a_plan_misses_a_file_and_touches_nothing(untouched: Any, recipe_file: str) -> None:
    wrong = ["--set", "corpus.train.0.source=/nowhere/news.en"]
    said = message(untouched("plan", recipe_file, *wrong, code=1).stderr)
    assert "corpus news, source side: /nowhere/news.en: no such file" in said
    assert untouched("plan", recipe_file, *wrong, "--debug", code=1).stderr.count(_TRACEBACK) == 1
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
def test_wrong_usage_is_explained(untouched: Any, recipe_file: str, fault: str) -> None:
    said = untouched(*(word.format(recipe=recipe_file) for word in USAGE[fault]), code=2).stderr
    assert said.startswith("Usage: ")
    assert said.count("Error") == 1
    assert "polish" in said
    assert _TRACEBACK not in said
    assert list(untouched.home.iterdir()) == []


@dataclasses.dataclass(frozen=True)
class Fault:
    """Something that only the stage finds which meets it."""

    wrong: list[str]
    stage: str
    says: list[str]
    mended: list[str] = dataclasses.field(default_factory=list)
    """What to set instead; empty: the text itself must change, so that nothing is left to go on from."""


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


@pytest.mark.parametrize("name", IN_A_STAGE)
def test_a_fault_that_a_stage_meets_costs_that_stage_alone(
    shared: Any, recipe_file: str, text: Path, statuses: Statuses, name: str
) -> None:
    fault = IN_A_STAGE[name]
    arguments = ["run", recipe_file, "--until", fault.stage]
    wrong = [part for value in fault.wrong for part in ("--set", value.format(text=text))]
    said = message(shared(*arguments, *wrong, code=1).stderr)
    assert all(part.format(text=text) in said for part in fault.says), said
    assert half_made(shared.home) == []
    if fault.mended:
        mended = [part for value in fault.mended for part in ("--set", value)]
        became = statuses(last_line(shared(*arguments, *mended, "--json")))
        assert became.pop(fault.stage) == "done"
        assert set(became.values()) == {"reused"}


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


def test_bad_corpora_are_left_out_where_the_recipe_says_so(
    shared: Any, recipe_file: str, text: Path, statuses: Statuses
) -> None:
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
    changes = {"corpus.train": json.dumps(corpora), "corpus.on_bad_corpus": "skip"}
    settings = [part for key, value in changes.items() for part in ("--set", f"{key}={value}")]
    summary = last_line(shared("run", recipe_file, "--until", "clean", "--json", *settings))

    assert statuses(summary) == {"download": "done", "clean": "done"}
    (fingerprint,) = [stage["fingerprint"] for stage in summary["stages"] if stage["name"] == "clean"]
    report = json.loads((shared.home / "artifacts" / "clean" / fingerprint / "report.json").read_text())
    assert report["items_in"] == 1_000
    assert report["skipped"].keys() == expected.keys()
    for name, parts in expected.items():
        assert all(part in report["skipped"][name] for part in parts), report["skipped"][name]


_ON_A_SMALL_DISK = """
mount -t tmpfs -o size=$1 tmpfs "$NMT_HOME" && shift && cp -r "$BEFORE/." "$NMT_HOME"
"$@" > "$RESULTS/full.out" 2> "$RESULTS/full.err"
echo $? > "$RESULTS/full.code"
cp -r "$NMT_HOME/artifacts" "$RESULTS/" 2> /dev/null
mount -o remount,size=400m "$NMT_HOME"
"$@" --json > "$RESULTS/more.out" 2> "$RESULTS/more.err"
"""


@pytest.fixture(scope="session")
def own_mounts() -> list[str]:
    """What starts a command that may mount a file system of its own, seen by nobody else."""
    for command in (["unshare", "--mount"], ["unshare", "--map-root-user", "--mount"]):
        if not shutil.which(command[0]):
            continue
        probe = [*command, "sh", "-c", "mount -t tmpfs -o size=64k tmpfs /tmp"]
        if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
            return command
    pytest.skip("the kernel allows no mount namespace, so no disk can be filled")


def fill_the_disk(nmt: Any, own_mounts: list[str], size: str, recipe: str, last: str, results: Path) -> dict[str, Any]:
    """Run on a disk of that size with what the home holds, and again when it has grown; what the second came to."""
    nmt.home.mkdir(exist_ok=True)
    before = nmt.home.rename(nmt.home.with_name("before"))
    nmt.home.mkdir()
    results.mkdir()
    command = [sys.executable, "-c", "from flows.cli import main; main()", "run", recipe, "--until", last]
    subprocess.run(
        [*own_mounts, "sh", "-c", _ON_A_SMALL_DISK, "sh", size, *command],
        env=nmt.environment | {"RESULTS": str(results), "BEFORE": str(before)},
        timeout=patient(200),
        check=True,
    )
    assert (results / "full.code").read_text() == "1\n"
    summary: dict[str, Any] = json.loads((results / "more.out").read_text().splitlines()[-1])
    return summary


def test_a_disk_that_a_stage_fills(
    nmt: Any, own_mounts: list[str], text: Path, tmp_path: Path, statuses: Statuses
) -> None:
    draw = random.Random(1)
    for language in ("en", "de"):  # text that hardly compresses: 24 MB, which clean writes again as some 18
        letters = base64.b64encode(draw.randbytes(9_000_000)).decode()
        words = [letters[start : start + 30] for start in range(0, len(letters), 30)]
        lines = (" ".join(words[start : start + 4]) for start in range(0, len(words), 4))
        (tmp_path / f"noise.{language}").write_text("\n".join(lines) + "\n")
    recipe = write_recipe(
        tmp_path / "noise.yaml",
        tmp_path / "noise.en",
        tmp_path / "noise.de",
        text,
        languages={"source": "en", "target": "de"},
    )
    results = tmp_path / "results"
    summary = fill_the_disk(nmt, own_mounts, "41m", recipe, "clean", results)
    said = message((results / "full.err").read_text())
    for part in (
        "stage clean",
        f"the disk of {nmt.home}/artifacts is full",
        "free space",
        "run the same command again",
    ):
        assert part in said
    assert half_made(results) == []
    assert statuses(summary) == {"download": "reused", "clean": "done"}


@pytest.mark.parametrize("size", ["400k", "3m"])
def test_a_disk_without_room_for_the_databases(
    untouched: Any, own_mounts: list[str], recipe_file: str, tmp_path: Path, size: str
) -> None:
    results = tmp_path / "results"
    summary = fill_the_disk(untouched, own_mounts, size, recipe_file, "download", results)
    said = message((results / "full.err").read_text())
    assert f"the disk of {untouched.home} is full: free space, then run the same command again" in said
    assert summary["status"] == "finished"


def wait_for(process: "subprocess.Popen[str]", home: Path, pattern: str, size: int = 0) -> None:
    """Return when a file or folder is there, and large enough, while the process runs."""

    def is_there() -> bool:
        assert process.poll() is None, process.communicate()
        files = [path for path in home.glob(pattern) if not path.name.endswith("-journal")]
        return any(path.stat().st_size >= size for path in files)

    until(is_there, f"no {pattern}", every=0.01)


def interrupt(process: "subprocess.Popen[str]") -> None:
    """Ctrl-C: it ends with 130 and one line, and nothing that it has started outlives it."""
    family = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=patient(60))
    assert process.returncode == 130, errors
    assert message(errors) == "nmt: stopped by SIGINT\n"
    assert [child for child in family if child.is_running() and child.status() != psutil.STATUS_ZOMBIE] == []


def test_ctrl_c_while_the_databases_are_made(untouched: Any, recipe_file: str) -> None:
    process = untouched.start("run", recipe_file, "--until", "download", anew=True)
    wait_for(process, untouched.home, "mlflow.db*", size=200_000)  # some of its tables are there, and more are to come
    interrupt(process)
    assert last_line(untouched("run", recipe_file, "--until", "download", "--json"))["status"] == "finished"


def test_ctrl_c_in_an_early_stage(shared: Any, tmp_path: Path, text: Path, statuses: Statuses) -> None:
    for language in ("en", "ko"):  # enough for a second of cleaning
        (tmp_path / f"long.{language}").write_text((text / f"train.{language}").read_text() * 100)
    recipe = write_recipe(tmp_path / "long.yaml", tmp_path / "long.en", tmp_path / "long.ko", text)
    process = shared.start("run", recipe, "--until", "clean")
    wait_for(process, shared.home, "artifacts/clean/*.partial")
    interrupt(process)
    assert half_made(shared.home) == []
    became = statuses(last_line(shared("run", recipe, "--until", "clean", "--json")))
    assert became == {"download": "reused", "clean": "done"}


def test_ctrl_c_while_training_starts(shared: Any, recipe_file: str, statuses: Statuses) -> None:
    process = shared.start("run", recipe_file, "--until", "train")
    wait_for(process, shared.home, "artifacts/train/*.partial/config.json")
    interrupt(process)
    assert half_made(shared.home) == []
    became = statuses(last_line(shared("run", recipe_file, "--until", "train", "--json")))
    assert became.pop("train") == "done"
    assert set(became.values()) == {"reused"}
