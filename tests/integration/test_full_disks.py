"""Full disks: one message with the remedy and no incomplete artifact. With space, the same command resumes."""

import base64
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.until import patient

from nmt_core.corpus import toy

pytestmark = pytest.mark.cpu(25)

Statuses = Callable[[dict[str, Any]], dict[str, str]]

_ON_A_SMALL_DISK = """
mount -t tmpfs -o size=$1 tmpfs "$NMT_HOME" && shift && cp -r "$BEFORE/." "$NMT_HOME"
"$@" > "$RESULTS/full.out" 2> "$RESULTS/full.err"
echo $? > "$RESULTS/full.code"
cp -r "$NMT_HOME/artifacts" "$RESULTS/" 2> /dev/null
mount -o remount,size=400m "$NMT_HOME"
"$@" --json > "$RESULTS/more.out" 2> "$RESULTS/more.err"
"""


def fill_the_disk(nmt: Any, own_mounts: list[str], size: str, arguments: list[str], results: Path) -> dict[str, Any]:
    """Run on a disk of this size with the content of the home, then again when it has grown.

    Return the second summary.
    """
    nmt.home.mkdir(exist_ok=True)
    before = nmt.home.rename(nmt.home.with_name("before"))
    nmt.home.mkdir()
    results.mkdir()
    command = [sys.executable, "-c", "from flows.cli.app import main; main()", "run", *arguments]
    subprocess.run(
        [*own_mounts, "sh", "-c", _ON_A_SMALL_DISK, "sh", size, *command],
        env=nmt.environment | {"RESULTS": str(results), "BEFORE": str(before)},
        timeout=patient(200),
        check=True,
    )
    assert (results / "full.code").read_text() == "1\n"
    summary: dict[str, Any] = json.loads((results / "more.out").read_text().splitlines()[-1])
    return summary


def message(results: Path) -> str:
    """The one message of the run on the small disk."""
    errors = (results / "full.err").read_text()
    assert errors.startswith("nmt: ")
    assert errors.count("\n") == 1, errors
    return errors


@pytest.fixture
def noise(tmp_path: Path) -> str:
    """The path of a recipe with text that hardly compresses: 24 MB, which clean writes again as some 18."""
    draw = random.Random(1)
    pairs = toy.generate(pairs=1_000, seed=1, held_out=20).dev
    for position, language in enumerate(("en", "de")):
        letters = base64.b64encode(draw.randbytes(9_000_000)).decode()
        words = [letters[start : start + 30] for start in range(0, len(letters), 30)]
        lines = (" ".join(words[start : start + 40]) for start in range(0, len(words), 40))
        (tmp_path / f"noise.{language}").write_text("\n".join(lines) + "\n")
        (tmp_path / f"dev.{language}").write_text("".join(f"{pair[position]}\n" for pair in pairs))

    def corpora(name: str, file: str) -> list[dict[str, str]]:
        return [{"name": name, "source": str(tmp_path / f"{file}.en"), "target": str(tmp_path / f"{file}.de")}]

    corpus = {"train": corpora("noise", "noise"), "dev": corpora("dev", "dev"), "test": corpora("test", "dev")}
    recipe = tmp_path / "noise.yaml"
    languages = {"source": "en", "target": "de"}
    recipe.write_text(
        yaml.safe_dump(
            {"name": "noise", "languages": languages, "corpus": corpus, "clean": {"min_language_probability": 0}}
        )
    )
    return str(recipe)


@pytest.mark.slow
def test_a_disk_that_a_stage_fills(
    nmt: Any, own_mounts: list[str], noise: str, tmp_path: Path, statuses: Statuses
) -> None:
    results = tmp_path / "results"
    summary = fill_the_disk(nmt, own_mounts, "41m", [noise, "--until", "clean"], results)
    said = message(results)
    for part in (
        "stage clean",
        f"the disk of {nmt.home}/artifacts is full",
        "free space",
        "run the same command again",
    ):
        assert part in said
    left = [path for path in results.glob("artifacts/*/*") if path.is_dir() and path.name != "fetching"]
    assert [path.parent.name for path in left if (path / "manifest.json").is_file()] == ["download"]
    assert len(left) == 1, "nothing is half made"
    assert statuses(summary) == {"download": "reused", "clean": "done"}


@pytest.mark.parametrize(
    "size", [pytest.param("400k", marks=pytest.mark.slow), pytest.param("3m", marks=pytest.mark.nightly)]
)
def test_a_disk_without_room_for_the_databases(
    untouched: Any, own_mounts: list[str], recipe: list[str], tmp_path: Path, size: str
) -> None:
    results = tmp_path / "results"
    summary = fill_the_disk(untouched, own_mounts, size, [*recipe, "--until", "download"], results)
    assert f"the disk of {untouched.home} is full: free space, then run the same command again" in message(results)
    assert summary["status"] == "finished"
