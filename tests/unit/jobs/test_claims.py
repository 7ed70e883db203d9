"""Only one process holds a claim at a time, as far as the store allows it. The claim of a dead owner ends."""

import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import fsspec
import psutil
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from support.until import patient, until

from nmt_core.jobs.claims import Claim, Claims
from nmt_core.jobs.folder import create, read_bytes
from nmt_core.store import storage


class OldStore(MemoryFileSystem):
    """Store that cannot create a file on the condition that it does not exist, like many stores."""

    protocol = "old"
    store: dict[str, object] = {}  # noqa: RUF012  # as in the class above it
    pseudo_dirs = [""]  # noqa: RUF012

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: object) -> None:
        if mode == "create":
            raise NotImplementedError("create")
        super().pipe_file(path, value, mode, **options)


@pytest.fixture(params=["folder", "memory", "old", "s3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "s3":
        yield request.getfixturevalue("s3_folder")
        return
    fsspec.register_implementation("old", OldStore, clobber=True)
    yield str(tmp_path / "claims") if request.param == "folder" else f"{request.param}://claims"
    for protocol in ("memory", "old"):
        fsspec.filesystem(protocol).store.clear()


def claim_of(folder: str, name: str) -> Claim | None:
    content = read_bytes(f"{folder}/{name}.json")
    return Claim.model_validate_json(content) if content is not None else None


def test_one_holds_a_claim_and_gives_it_back(folder: str) -> None:
    ours, theirs = Claims(folder), Claims(folder)
    with ours.held("7") as first, theirs.held("7") as second, theirs.held("8") as other:
        assert (first, second, other) == (True, False, True)
        found = claim_of(folder, "7")
        assert found and found.owner == ours.owner and found.pid == os.getpid()
    assert claim_of(folder, "7") is None
    with theirs.held("7") as later:
        assert later


def test_of_many_at_once_one_gets_it(tmp_path: Path) -> None:
    """All of them have seen that there is no claim."""
    start = threading.Barrier(8)
    got: list[bool] = []

    def create_one(url: str) -> None:
        start.wait()
        got.append(create(secrets.token_bytes(8), url))

    for number in range(20):
        threads = [threading.Thread(target=create_one, args=(f"{tmp_path}/{number}.json",)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert got.count(True) == 20 and len(got) == 160
    assert len(list(tmp_path.iterdir())) == 20


def test_s3_makes_a_claim_only_where_there_is_none(s3_folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have seen that there is no claim. Nothing is written without that condition."""
    monkeypatch.setattr(storage, "write_bytes", pytest.fail)
    assert create(b"ours", f"{s3_folder}/7.json") is True
    assert create(b"theirs", f"{s3_folder}/7.json") is False
    assert read_bytes(f"{s3_folder}/7.json") == b"ours"


def test_a_claim_lasts_while_its_owner_works(folder: str) -> None:
    with Claims(folder, seconds=patient(3)).held("7") as first:
        assert first
        before = claim_of(folder, "7")
        until(lambda: claim_of(folder, "7") != before)
        now = claim_of(folder, "7")
        assert before and now and now.expires > before.expires and now.holds
        with Claims(folder).held("7") as second:
            assert not second


@pytest.mark.parametrize("ahead", [86_400, -86_400])
def test_a_silent_claim_from_elsewhere_ends_whatever_its_clock_says(ahead: float, folder: str) -> None:
    """The clock of the owner is a day ahead or behind. Its claim changes while it lives."""
    now = [0.0]

    def say(more: float) -> None:
        far = Claim(owner="theirs", host="elsewhere", expires=time.time() + ahead + more)
        storage.write_bytes([far.model_dump_json().encode()], f"{folder}/7.json")

    ours = Claims(folder, seconds=60, clock=lambda: now[0])
    for beat in range(5):
        say(beat)
        with ours.held("7") as is_ours:
            assert not is_ours
        now[0] += 59
    assert not ours._take(f"{folder}/7.json")
    now[0] += 1
    assert ours._take(f"{folder}/7.json")
    found = claim_of(folder, "7")
    assert found and found.owner == ours.owner


def test_a_silent_claim_of_a_process_that_runs_here_holds(tmp_path: Path) -> None:
    """The process may have been stopped for a while. It uses the clock of this machine."""
    now = [0.0]
    theirs, ours = Claims(str(tmp_path), seconds=9_999), Claims(str(tmp_path), seconds=1, clock=lambda: now[0])
    assert theirs._take(f"{tmp_path}/7.json")
    assert not ours._take(f"{tmp_path}/7.json")
    now[0] += 1_000
    assert not ours._take(f"{tmp_path}/7.json")


def test_a_death_on_this_machine_is_seen_at_once(tmp_path: Path) -> None:
    code = (
        f"from nmt_core.jobs.claims import Claims; Claims({str(tmp_path)!r}, 999)._take({str(tmp_path / '7.json')!r})"
    )
    before = time.time()
    subprocess.run([sys.executable, "-c", code], check=True)
    found = claim_of(str(tmp_path), "7")
    assert found and found.expires > before + 990 and not found.holds
    with Claims(str(tmp_path)).held("7") as is_ours:
        assert is_ours


def test_another_process_with_the_number_of_a_dead_one_is_not_its_owner() -> None:
    born = psutil.Process().create_time()
    values = {"owner": "x", "host": os.uname().nodename, "pid": os.getpid(), "expires": time.time() + 9_999}
    assert Claim.model_validate({**values, "born": born}).holds
    assert not Claim.model_validate({**values, "born": born - 60}).holds


def test_a_claim_that_was_taken_over_is_not_given_back(folder: str) -> None:
    other = Claims(folder)
    with Claims(folder, seconds=0.3).held("7"):
        other._write(f"{folder}/7.json")  # we were thought dead
        until(lambda: "claim" not in {thread.name for thread in threading.enumerate()}, "it beats on")
        found = claim_of(folder, "7")
        assert found and found.owner == other.owner
    found = claim_of(folder, "7")
    assert found and found.owner == other.owner


def test_a_damaged_claim_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "7.json").write_text('{"owner"')
    with Claims(str(tmp_path)).held("7") as is_ours:
        assert is_ours
    assert not (tmp_path / "7.json").exists()


def test_another_process_of_the_same_attempt_inherits_its_claims(folder: str) -> None:
    ours = Claims(folder)
    assert ours._take(f"{folder}/7.json")
    with Claims(folder, owner=ours.owner).held("7") as is_ours:
        assert is_ours
