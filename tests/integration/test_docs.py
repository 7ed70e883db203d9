"""The pages of docs/ are true: every command of a tutorial runs, in its order, on small models."""

import dataclasses
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from support.forked import start
from support.small import SMALL
from support.until import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_800), pytest.mark.cpu(250)]

DOCS = Path(__file__).parents[2] / "docs"
_OWN = {name: value for name, value in SMALL.items() if not name.startswith("corpus.toy.")}
_TUTORIAL = _OWN | {"split.dev_pairs": 20, "split.test_pairs": 20, "encode.max_length": 128}
"""Options that make the recipes of the tutorials, which have text of their own, small."""
_PAIRS = re.compile(r"pairs=(\d+)_000")
_UNTIL_CTRL_C = "until Ctrl-C"


class Block(NamedTuple):
    """One fenced block of a page."""

    language: str
    title: str
    text: str


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page in their order. Blocks in a note are indented, and are not part of the tutorial."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.findall(r'^```(\w+)(?: title="([^"]*)")?\n(.*?)^```$', text, re.MULTILINE | re.DOTALL)
    return [Block(*each) for each in found]


@dataclasses.dataclass
class Reader:
    """Reader who follows a page in a folder."""

    nmt: Any
    folder: Path
    small: bool = True
    """True if recipes of the page are made small when they are run."""
    up: Any = None
    """Function that starts and ends a command that runs until Ctrl-C."""
    said: dict[str, str] = dataclasses.field(default_factory=dict)
    """Output of each command."""

    def follow(self, page: str) -> dict[str, str]:
        """Write the files of the page and run its commands, in their order."""
        for block in blocks(page):
            if block.language != "sh" and block.title:
                text = _PAIRS.sub("pairs=2_000", block.text)
                (self.folder / block.title).write_text(text, encoding="utf-8")
            elif block.language == "sh":
                for line in block.text.splitlines():
                    self._do(line, until_ctrl_c=block.title == _UNTIL_CTRL_C)
        return self.said

    def _do(self, line: str, *, until_ctrl_c: bool) -> None:
        process = self._start(line)
        if until_ctrl_c:
            self.up.process = process
            self.up.wait_until_up()
            return
        out, error = process.communicate(timeout=patient(300))
        assert process.returncode == 0, f"{line}:\n{out}\n{error}"
        self.said[line] = out

    def _start(self, line: str) -> Any:
        environment = self.nmt.environment
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": self.folder}
        if line.startswith("nmt ") and "|" not in line:
            return start(self.nmt.zygote, self._arguments(line), env=environment, **pipes)
        path = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
        shell = ["bash", "-euo", "pipefail", "-c", line]
        return subprocess.Popen(shell, env=environment | {"PATH": path}, text=True, **pipes)

    def _arguments(self, line: str) -> list[str]:
        arguments = shlex.split(line, comments=True)[1:]
        if self.small and arguments[0] in {"plan", "run"}:
            arguments += [part for key, value in _TUTORIAL.items() for part in ("--set", f"{key}={value}")]
        return arguments


@pytest.fixture(scope="module")
def pair(
    make_nmt: Callable[..., Any], prefect_server: Any, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Reader, dict[str, str]]:
    """Reader who has done the tutorial on a language pair, with the output of its commands."""
    folder = tmp_path_factory.mktemp("pair")
    reader = Reader(make_nmt(folder / "home", prefect=prefect_server), folder)
    return reader, dict(reader.follow("tutorials/own-language-pair.md"))


def again(reader: Reader, **changes: Any) -> Reader:
    """Return a reader of another page in the same folder."""
    return dataclasses.replace(reader, said={}, **changes)


def test_a_language_pair_of_ones_own(pair: tuple[Reader, dict[str, str]]) -> None:
    reader, said = pair
    page = "tutorials/own-language-pair.md"
    (recipe,) = (block for block in blocks(page) if block.title == "ko-en.yaml")
    assert len(recipe.text.splitlines()) == 10
    shown = next(block.text for block in blocks(page) if block.language == "text")
    assert shown.splitlines()[0] == said["head -n 4 pairs.tsv"].splitlines()[0] == "ko\ten"
    assert "version 1" in said["nmt run ko-en.yaml"]
    assert said["nmt models ko-en"].startswith("version 1 (challenger, champion)")
    lines = [len((reader.folder / name).read_text(encoding="utf-8").splitlines()) for name in ("new.txt", "new.en.txt")]
    assert lines == [5, 5]


def test_retraining_on_schedule(pair: tuple[Reader, dict[str, str]], ask: Callable[[Any], Any]) -> None:
    alone = dataclasses.replace(pair[0].nmt, prefect=None)  # `nmt up` brings servers of its own
    up = ask(alone)
    try:
        said = again(pair[0], nmt=alone, up=up).follow("tutorials/retraining-on-schedule.md")
        deployed = up.deployment("retrain/ko-en")
        up.end()
    finally:
        up.kill()
    assert deployed["schedules"][0]["schedule"] == {
        "cron": "0 3 * * 1",
        "timezone": "Europe/Berlin",
        "day_or": True,
    }
    ran = re.findall(r"^ *(\w+) +run ", said["nmt run weekly.yaml"], re.MULTILINE)
    assert set(ran) <= {"register"}, "a schedule and a gate make no artifact anew"
    shown = next(block.text for block in blocks("tutorials/retraining-on-schedule.md") if block.language == "text")
    assert words(shown) == words(said["nmt deploy weekly.yaml --dry-run"])


def test_the_days_of_three_people(pair: tuple[Reader, dict[str, str]], ask: Callable[[Any], Any]) -> None:
    alone = dataclasses.replace(pair[0].nmt, prefect=None)  # `nmt up` brings servers of its own
    up = ask(alone)
    try:
        reader = again(pair[0], nmt=alone, up=up)
        said = reader.follow("tutorials/three-days.md")
        up.end()
    finally:
        up.kill()
    assert "nightly" not in said["nmt schedules"] and "Europe/Berlin" in said["nmt schedules"]
    assert "ko-en" in said["nmt pause ko-en"] and "ko-en" in said["nmt resume ko-en"]
    page = (reader.folder / "page.en.html").read_text(encoding="utf-8")
    assert page.startswith('<!doctype html>\n<html lang="') and "</b>" in page
    assert len((reader.folder / "new.terms.txt").read_text(encoding="utf-8").splitlines()) == 5
    assert yaml.safe_load((reader.folder / "looked-at.yaml").read_text(encoding="utf-8"))["languages"]["source"] == "ko"


def words(table: str) -> list[list[str]]:
    """Return the words of each line of a table, without its rules."""
    return [line.split() for line in table.splitlines() if line.strip(" ─")]


def test_fine_tuning(pair: tuple[Reader, dict[str, str]]) -> None:
    said = again(pair[0]).follow("tutorials/fine-tuning.md")
    assert "version 1" in said["nmt run tuned.yaml"]
    assert "stays challenger" in said["nmt run tuned.yaml"].replace("\n", " ")
    promoted = said["nmt models ko-en-tuned"]
    assert promoted.startswith("version 1 (challenger, champion)")
    assert "its test set may overlap with the first training" in promoted
    assert re.search(r"average/[0-9a-f]{12}", said["nmt artifacts show train"]), "what it started from"


@pytest.fixture
def quickstart(continued: tuple[Any, dict[str, Any]], tmp_path: Path) -> Reader:
    """Reader in whose home a small quickstart has finished. A recipe of the same name represents it."""
    recipe = {name: value for name, value in continued[1]["config"].items() if value is not None}
    (tmp_path / "quickstart.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    return SmallQuickstart(continued[0], tmp_path, small=False)


class SmallQuickstart(Reader):
    """Reader whose commands read quickstart.yaml as the recipe."""

    def _start(self, line: str) -> Any:
        return super()._start(re.sub(r"(nmt (?:plan|run|why train)) quickstart\b", r"\1 quickstart.yaml", line))


def test_the_quickstart(quickstart: Reader) -> None:
    said = quickstart.follow("tutorials/quickstart.md")
    assert "train.seed: 1 -> 2" in said["nmt why train quickstart --set train.seed=2"]
    assert (quickstart.folder / "explained.html").stat().st_size > 10_000
    table = next(block.text for block in blocks("tutorials/quickstart.md") if " stage " in block.text)
    stages = [line.split()[0] for line in table.splitlines()[2:]]
    assert stages == words_of_a_run(said["nmt run quickstart --set search.beam_size=8"])


def words_of_a_run(out: str) -> list[str]:
    """Return the names of the stages in the table that a run prints."""
    return re.findall(r"^ *(\w+) +(?:run|reused) ", out, re.MULTILINE)


def test_a_filter_of_ones_own(quickstart: Reader) -> None:
    page = (DOCS / "how-to/add-a-filter.md").read_text(encoding="utf-8")
    assert "PYTHONPATH=$PWD nmt run filtered.yaml --until clean" in page
    done = quickstart.follow("how-to/add-a-filter.md")
    assert "score:my_rules:length" in done["nmt artifacts show clean"]


def test_a_stage_of_ones_own(quickstart: Reader) -> None:
    quickstart.follow("how-to/add-a-stage.md")
    (quickstart.folder / ".nmt").symlink_to(quickstart.nmt.home)
    environment = quickstart.nmt.environment | {"PYTHONPATH": str(quickstart.folder)}
    said = [
        subprocess.run(
            [sys.executable, "try_count.py"], cwd=quickstart.folder, env=environment, check=True, text=True, stdout=-1
        ).stdout
        for _ in range(2)
    ]
    assert [line.split()[-1] for line in said] == ["made", "reused"]
    assert (quickstart.folder / said[0].split()[0]).read_text().startswith("[{")


def test_backups(quickstart: Reader, tmp_path: Path) -> None:
    shutil.copytree(quickstart.nmt.home, tmp_path / ".nmt", symlinks=True)
    reader = Reader(dataclasses.replace(quickstart.nmt, home=Path(".nmt"), prefect=None), tmp_path)
    said = reader.follow("how-to/back-up-and-restore.md")
    assert "quickstart" in said["nmt models"]
    assert "quickstart" in said["NMT_HOME=backup nmt models"]
    assert said["nmt artifacts verify --all"]


def test_a_translator_in_python(int8_bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "exported").symlink_to(int8_bundle)
    (code,) = (block.text for block in blocks("how-to/use-a-model.md") if block.title == "translate.py")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, text=True, stdout=subprocess.PIPE, check=True)
    lines = done.stdout.split("\n")
    assert len(lines) == 3
    assert lines[1].split() == ["nan", "empty"]
