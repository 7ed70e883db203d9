"""The stage `download`: the files that it brings, the records that it keeps, and its errors."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.registry import _registry
from support.until import patient, until

from nmt_core.config import PipelineConfig
from nmt_core.corpus.download import DownloadReport
from nmt_core.corpus.fetching import mirror
from nmt_core.corpus.index import CorpusIndex, StoredCorpus
from nmt_core.errors import DataError, StageError
from nmt_core.stages.stage import Job, Outcome, Resources, SilentReporter, run_stage
from nmt_core.stages.table import STAGES, plan
from nmt_core.store import storage
from nmt_core.store.artifacts import Store

Answers = Callable[..., Any]
ROWS = [(f"Dog {number} runs.", f"Hund {number} rennt.") for number in range(200)]
TABLE = "".join(f"{source}\t{target}\n" for source, target in ROWS).encode()
ENGLISH = "".join(f"{source}\n" for source, _ in ROWS).encode()
GERMAN = "".join(f"{target}\n" for _, target in ROWS).encode()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Recipe:
    """Recipe with a store to run it in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = folder / "recipe.lock.json"
        self.store = Store(folder / "store")
        self.told: list[str] = []

    def config(self, *train: Any, **corpus: Any) -> PipelineConfig:
        values = {"train": list(train), "lock": str(self.lock)} | corpus
        return PipelineConfig.model_validate(
            {"name": "test", "languages": {"source": "en", "target": "de"}, "corpus": values}
        )

    def run(self, *train: Any, force: bool = False, **corpus: Any) -> Outcome:
        recipe = self

        class Reporter(SilentReporter):
            def progress(self, done: float, total: float, note: str = "") -> None:
                assert 0 <= done <= total
                recipe.told.append(note)

            def log(self, message: str) -> None:
                recipe.told.append(message)

        job = Job(Reporter(), Resources())
        return run_stage(STAGES["download"], self.config(*train, **corpus), self.store, {}, job, force=force)

    def corpora(self, *train: Any, **corpus: Any) -> tuple[StoredCorpus, ...]:
        return CorpusIndex.of(self.run(*train, **corpus).artifact).corpora


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    return Recipe(tmp_path)


def zipped(path: Path, **members: bytes) -> bytes:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_", "."), content)
    return path.read_bytes()


def report_of(outcome: Outcome) -> DownloadReport:
    return DownloadReport.model_validate(outcome.artifact.report())


def test_files_of_every_kind_of_place_come_as_they_are(web: Any, good: Answers, recipe: Recipe) -> None:
    (recipe.folder / "a.en").write_bytes(ENGLISH)
    fsspec.filesystem("memory").pipe("/bucket/b.tsv", TABLE)

    outcome = recipe.run(
        {"name": "two", "source": str(recipe.folder / "a.en"), "target": web.serve("x.de", good(GERMAN))},
        {"name": "web", "address": web.serve("table.tsv?key=1", good(TABLE))},
        {"name": "cloud", "address": "memory://bucket/b.tsv"},
        dev=[{"name": "dev", "address": web.serve("table.tsv?key=2", good(TABLE))}],
    )

    index = CorpusIndex.of(outcome.artifact)
    files = [file for corpus in index.corpora for file in corpus.files]
    assert [(file.file, file.side) for file in files] == [
        ("train/two.source.txt", "source"),
        ("train/two.target.txt", "target"),
        ("train/web.tsv", "both"),
        ("train/cloud.tsv", "both"),
        ("dev/dev.tsv", "both"),
    ]
    for file, content in zip(files, [ENGLISH, GERMAN, TABLE, TABLE, TABLE], strict=True):
        assert (outcome.artifact.path / file.file).read_bytes() == content
        assert (file.sha256, file.bytes) == (sha256(content), len(content))
    assert files[1].address == f"{web.root}/x.de"
    report = report_of(outcome)
    assert (report.items_out, report.bytes) == (5, sum(file.bytes for file in files))
    assert [record.corpus for record in report.corpora] == ["two", "web", "cloud", "dev"]
    assert recipe.told[-1].startswith("4 of 4 corpora, ")


def test_nothing_but_the_files_and_their_index_is_published(web: Any, good: Answers, recipe: Recipe) -> None:
    outcome = recipe.run({"name": "web", "address": web.serve("a.tsv", good(TABLE))})

    assert set(outcome.artifact.manifest().outputs) == {"corpora.json", "report.json", "train/web.tsv"}
    assert not list((recipe.store.root / "download" / "fetching").glob("*.part"))
    assert not list(recipe.store.root.glob("*/*.partial"))


def test_the_toy_corpus_is_made(recipe: Recipe) -> None:
    outcome = recipe.run(toy={"pairs": 1_000, "held_out": 10}, licence="CC0")

    assert [(c.role, c.name, c.licence, len(c.files)) for c in CorpusIndex.of(outcome.artifact).corpora] == [
        (role, "toy", "CC0", 2) for role in ("train", "dev", "test")
    ]
    assert report_of(outcome).planted


# What is remembered


def test_the_first_run_records_and_the_second_finds_the_artifact(web: Any, good: Answers, recipe: Recipe) -> None:
    files = {"name": "web", "address": web.serve("a.tsv", good(TABLE))}
    first = recipe.run(files)

    assert json.loads(recipe.lock.read_text())["files"][files["address"]]["sha256"] == sha256(TABLE)
    assert plan(recipe.config(files), recipe.store)[0].artifact == first.artifact
    assert recipe.run(files).reused
    assert len(web.requests) == 1
    assert list(recipe.store.published()) == [first.artifact]


def test_a_file_that_changed_is_refused_until_its_entry_is_removed(web: Any, good: Answers, recipe: Recipe) -> None:
    files = {"name": "web", "address": web.serve("a.tsv", good(TABLE), good(TABLE + b"More.\tMehr.\n", '"two"'))}
    recipe.run(files)

    with pytest.raises(
        DataError, match=rf"corpus web: {files['address']} has sha256 .*{sha256(TABLE)}: remove its entry"
    ):
        Recipe.run(_elsewhere(recipe), files)
    recipe.lock.unlink()
    assert report_of(Recipe.run(_elsewhere(recipe), files)).bytes == len(TABLE) + 12


def _elsewhere(recipe: Recipe) -> Recipe:
    """Return the recipe with an empty store."""
    other = Recipe(recipe.folder)
    other.store = Store(recipe.folder / "elsewhere")
    return other


def test_a_corpus_that_is_added_does_not_fetch_the_others_anew(web: Any, good: Answers, recipe: Recipe) -> None:
    one = {"name": "one", "address": web.serve("1.tsv", good(TABLE))}
    two = {"name": "two", "address": web.serve("2.tsv", good(TABLE[:-1]))}
    first = recipe.run(one)

    second = recipe.run(one, two)

    assert [request.path for request in web.requests] == ["/1.tsv", "/2.tsv"]
    assert report_of(second).reused == 1
    files = [outcome.artifact.path / "train" / "one.tsv" for outcome in (first, second)]
    assert files[0].stat().st_ino == files[1].stat().st_ino


def test_a_damaged_file_of_an_earlier_download_is_not_used(web: Any, good: Answers, recipe: Recipe) -> None:
    one = {"name": "one", "address": web.serve("1.tsv", good(TABLE))}
    path = recipe.run(one).artifact.path / "train" / "one.tsv"
    path.write_bytes(TABLE[::-1])

    again = recipe.run(one, {"name": "two", "address": web.serve("2.tsv", good(TABLE[:-1]))})

    assert (again.artifact.path / "train" / "one.tsv").read_bytes() == TABLE
    assert [request.path for request in web.requests].count("/1.tsv") == 2


def test_a_local_file_may_change_without_the_artifact(recipe: Recipe) -> None:
    path = recipe.folder / "a.tsv"
    path.write_bytes(TABLE)
    first = recipe.run(str(path)).artifact
    path.write_bytes(b"")

    assert (first.path / CorpusIndex.of(first).corpora[0].files[0].file).read_bytes() == TABLE
    assert not recipe.lock.exists()


def test_an_address_in_two_corpora_is_fetched_once(web: Any, good: Answers, recipe: Recipe) -> None:
    address = web.serve("a.tsv", good(TABLE))

    recipe.run(*({"name": f"n{number}", "address": address} for number in range(5)))

    assert web.asked("Range") == [None]


def test_a_pinned_file_must_be_what_is_pinned(web: Any, good: Answers, recipe: Recipe) -> None:
    address, other = web.serve("a.tsv", good(TABLE)), sha256(b"other")

    with pytest.raises(DataError, match=rf"corpus web: {address} has sha256 {sha256(TABLE)}, but {other} is expected"):
        recipe.run({"name": "web", "address": address, "sha256": other})
    recipe.run({"name": "web", "address": address, "sha256": sha256(TABLE)})
    assert not recipe.lock.exists()


# Without a network


def test_of_the_mirror_no_more_is_read_than_what_has_the_recorded_size(
    web: Any, good: Answers, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = {"name": "web", "address": web.serve("a.tsv", good(TABLE))}
    recipe.run(corpus)
    folder = recipe.folder / "mirror"
    folder.mkdir()
    (folder / "another name").write_bytes(TABLE)
    (folder / "a large file").write_bytes(TABLE * 2)
    read: list[str] = []

    def noting(path: Path) -> str:
        read.append(path.name)
        return sha256(path.read_bytes())

    monkeypatch.setattr(mirror, "sha256_of", noting)
    recipe.run(corpus, force=True, mirror=str(folder))

    assert read == ["another name"]


def test_the_mirror_goes_before_the_network(web: Any, recipe: Recipe) -> None:
    mirror = recipe.folder / "mirror"
    mirror.mkdir()
    (mirror / "a.tsv").write_bytes(TABLE)

    recipe.run({"name": "web", "address": web.serve("a.tsv")}, mirror=str(mirror))

    assert web.requests == []


def test_offline_takes_what_is_here_and_names_what_is_not(web: Any, good: Answers, recipe: Recipe) -> None:
    one = {"name": "one", "address": web.serve("1.tsv", good(TABLE))}
    recipe.run(one)
    (recipe.folder / "b.tsv").write_bytes(TABLE)

    recipe.run(one, {"name": "two", "address": str(recipe.folder / "b.tsv")}, offline=True)

    with pytest.raises(DataError, match=r"corpus two: .*2.tsv: corpus.offline is set.*--set corpus.mirror=FOLDER"):
        recipe.run(one, {"name": "two", "address": f"{web.root}/2.tsv"}, offline=True)
    with pytest.raises(DataError, match=r"corpus two: hf:a/b@main: corpus.offline is set, and the lock file does not"):
        recipe.run(one, {"name": "two", "address": "hf:a/b@main"}, offline=True)
    assert len(web.requests) == 1


# What goes wrong


def test_a_training_corpus_may_be_skipped(web: Any, good: Answers, recipe: Recipe) -> None:
    (recipe.folder / "empty.tsv").touch()
    outcome = recipe.run(
        {"name": "gone", "address": web.serve("gone.tsv")},
        {"name": "good", "address": web.serve("a.tsv", good(TABLE))},
        {"name": "local", "address": "gone/a.tsv"},
        {"name": "half", "source": web.serve("h.en", good(ENGLISH)), "target": web.serve("h.de")},
        {"name": "empty", "address": str(recipe.folder / "empty.tsv")},
        on_bad_corpus="skip",
    )

    index = CorpusIndex.of(outcome.artifact)
    assert [corpus.name for corpus in index.corpora] == ["good"]
    assert list(index.skipped) == ["gone", "local", "half", "empty"]
    assert "the server answered 404" in index.skipped["gone"]
    assert index.on_bad_corpus == "skip"
    report = report_of(outcome)
    assert (report.skipped, report.items_out) == (4, 1)
    assert [skipped.corpus for skipped in report.skipped_corpora] == list(index.skipped)
    assert sum(line.startswith("left out: corpus") for line in recipe.told) == 4
    assert set(outcome.artifact.manifest().outputs) == {"corpora.json", "report.json", "train/good.tsv"}


@pytest.mark.parametrize("role", ["dev", "test"])
def test_a_dev_or_test_set_is_never_skipped(web: Any, good: Answers, recipe: Recipe, role: str) -> None:
    files = {"name": "web", "address": web.serve("a.tsv", good(TABLE))}
    gone = {"name": "gone", "address": web.serve("gone.tsv")}

    with pytest.raises(DataError, match="corpus gone: cannot fetch"):
        recipe.run(files, on_bad_corpus="skip", **{role: [gone]})


def test_nothing_to_train_on_is_an_error(web: Any, recipe: Recipe) -> None:
    with pytest.raises(StageError, match=r"no training corpus could be fetched; gone: corpus gone: cannot fetch .*404"):
        recipe.run({"name": "gone", "address": web.serve("gone.tsv")}, on_bad_corpus="skip")


def test_by_default_a_bad_corpus_stops_the_run_and_the_rest_is_kept(web: Any, good: Answers, recipe: Recipe) -> None:
    files = {"name": "web", "address": web.serve("a.tsv", good(TABLE))}

    with pytest.raises(DataError, match="corpus gone: cannot fetch"):
        recipe.run(files, {"name": "gone", "address": web.serve("gone.tsv")})
    assert list(recipe.store.published()) == []

    recipe.run(files)
    assert web.asked("Range")[-1] is None or web.asked("Range")[-1] == f"bytes={len(TABLE)}-"


def test_a_wrong_file_names_the_corpus_and_the_address(web: Any, good: Answers, recipe: Recipe) -> None:
    address = web.serve("a.en", good(ENGLISH))

    with pytest.raises(DataError, match=f"corpus web: {address}: holds one side of a corpus, not both"):
        recipe.run({"name": "web", "address": address})


def in_another_process(recipe: Recipe, *train: Any) -> "subprocess.Popen[str]":
    """Process that downloads, and waits for hours for a server that sends nothing."""
    (recipe.folder / "config.json").write_text(recipe.config(*train).model_dump_json())
    program = (
        "import sys; from pathlib import Path; from nmt_core.store.artifacts import Store; "
        "from nmt_core.config import PipelineConfig; from nmt_core.stages.table import STAGES; "
        "from nmt_core.stages.stage import *; "
        "from nmt_core.corpus.fetching import fetcher; object.__setattr__(fetcher.Fetcher.patience, 'timeout', 9_999); "
        "config = PipelineConfig.model_validate_json(Path(sys.argv[1]).read_text()); "
        "run_stage(STAGES['download'], config, Store(Path(sys.argv[2])), {}, Job(SilentReporter(), Resources()))"
    )
    command = [sys.executable, "-c", program, str(recipe.folder / "config.json"), str(recipe.store.root)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def test_ctrl_c_does_not_wait_for_a_silent_server(web: Any, recipe: Recipe) -> None:
    silence = threading.Event()
    process = in_another_process(recipe, {"name": "web", "address": web.serve("a.tsv", lambda _: silence.wait())})
    until(lambda: bool(web.requests))

    process.send_signal(signal.SIGINT)

    try:
        _, errors = process.communicate(timeout=patient(60))
    finally:
        silence.set()
        process.kill()
    assert "KeyboardInterrupt" in errors


def test_after_kill_9_the_next_run_resumes_even_with_another_recipe(web: Any, good: Answers, recipe: Recipe) -> None:
    going_on, cut = threading.Event(), 1_000

    def slow(request: Any) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(TABLE)))
        request.send_header("ETag", '"one"')
        request.end_headers()
        request.wfile.write(TABLE[:cut])
        going_on.wait(patient(200))

    files = {"name": "web", "address": web.serve("a.tsv", slow, good(TABLE))}
    victim = in_another_process(recipe, files)
    until(lambda: sum(path.stat().st_size for path in recipe.store.root.rglob("a.tsv")) >= cut)
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    going_on.set()

    other = {"name": "other", "address": web.serve("b.tsv", good(TABLE[:-1]))}
    outcome = recipe.run(files, other)

    assert (outcome.artifact.path / "train" / "web.tsv").read_bytes() == TABLE
    assert [r.headers.get("Range") for r in web.requests if r.path == "/a.tsv"] == [None, f"bytes={cut}-"]


# Folders, patterns, archives


def test_a_folder_is_stored_in_pairs(recipe: Recipe) -> None:
    folder = recipe.folder / "corpus"
    folder.mkdir()
    for name, content in {"a.en": ENGLISH, "a.de": GERMAN, "b.en": ENGLISH, "b.de": GERMAN, "c.tsv": TABLE}.items():
        (folder / name).write_bytes(content)

    (corpus,) = recipe.corpora({"name": "mine", "address": str(folder)})

    assert [(file.file, file.side) for file in corpus.files] == [
        ("train/mine.source.00000.txt", "source"),
        ("train/mine.target.00000.txt", "target"),
        ("train/mine.source.00001.txt", "source"),
        ("train/mine.target.00001.txt", "target"),
        ("train/mine.tsv", "both"),
    ]


@pytest.mark.parametrize("kind", ["memory", "s3"])
def test_a_pattern_in_an_object_store_is_looked_up_once(
    kind: str, recipe: Recipe, request: pytest.FixtureRequest
) -> None:
    lake = "memory://lake" if kind == "memory" else request.getfixturevalue("s3_folder")
    pattern = f"{lake}/x.*.tsv"
    contents = [TABLE, TABLE[:-1]]
    for number, content in enumerate(contents, 1):
        storage.write_bytes([content], f"{lake}/x.{number}.tsv")

    outcome = recipe.run({"name": "lake", "address": pattern})

    (corpus,) = CorpusIndex.of(outcome.artifact).corpora
    assert [file.file for file in corpus.files] == ["train/lake.00000.tsv", "train/lake.00001.tsv"]
    assert [(outcome.artifact.path / file.file).read_bytes() for file in corpus.files] == contents
    assert list(json.loads(recipe.lock.read_text())["addresses"]) == [f"{pattern} en-de"]
    assert recipe.run({"name": "lake", "address": pattern}).reused
    storage.write_bytes([TABLE], f"{lake}/x.3.tsv")
    with pytest.raises(DataError, match="leads to other files than it did"):
        recipe.run({"name": "lake", "address": pattern}, force=True)
    recipe.run({"name": "lake", "address": pattern}, force=True, offline=True)
    with pytest.raises(DataError, match=r"corpus.offline is set, and the lock file does not list"):
        recipe.run({"name": "lake", "address": f"{lake}/y.*.tsv"}, offline=True)


@pytest.mark.parametrize("file", ["nowhere/a.tsv", "nowhere/*.tsv"])
@pytest.mark.parametrize("scheme", ["memory", "s3"])
def test_nothing_in_an_object_store_is_an_error(recipe: Recipe, s3: str, scheme: str, file: str) -> None:
    address = f"{scheme}://{file}"
    with pytest.raises(DataError, match=rf"corpus lake: .*{scheme}://nowhere/.*"):
        recipe.run({"name": "lake", "address": address})


@pytest.mark.parametrize(("scheme", "package"), [("s3", "s3fs"), ("gs", "gcsfs")])
def test_a_store_whose_package_is_not_installed_names_it(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch, scheme: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(_registry, scheme, raising=False)  # of what was found before

    with pytest.raises(DataError, match=rf"{scheme}://bucket/a.tsv: needs the package {package}: pip install"):
        recipe.run({"name": "lake", "address": f"{scheme}://bucket/a.tsv"})


# Licences


def test_licence_and_citation_travel_with_the_corpus(web: Any, good: Answers, recipe: Recipe) -> None:
    own = {"name": "own", "address": web.serve("a.tsv", good(TABLE)), "licence": "CC-BY 4.0", "citation": "Me 2026"}
    bare = {"name": "bare", "address": web.serve("b.tsv", good(TABLE))}

    outcome = recipe.run(own, bare, licence="CC0")

    stored = CorpusIndex.of(outcome.artifact).corpora
    assert [(corpus.licence, corpus.citation) for corpus in stored] == [("CC-BY 4.0", "Me 2026"), ("CC0", "")]
    assert [record.licence for record in report_of(outcome).corpora] == ["CC-BY 4.0", "CC0"]
