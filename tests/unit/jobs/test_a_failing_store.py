"""A store that stops answering reads is named. Its files are not called damaged."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem
from support import facts

from nmt_core.errors import DataError
from nmt_core.jobs import run as run_module
from nmt_core.jobs.folder import JobFolder
from nmt_core.jobs.order import JobRequest
from nmt_core.jobs.run import run_job


class ExpiringStore(MemoryFileSystem):
    """Store whose token expires. It raises the errors of s3fs."""

    protocol = "expiring"
    store: dict[str, object] = {}  # noqa: RUF012  # as in the class above it
    pseudo_dirs = [""]  # noqa: RUF012
    expired = False

    def _open(self, path: str, mode: str = "rb", *rest: Any, **options: Any) -> MemoryFile:
        if self.expired and mode == "rb" and path.endswith(".parquet"):
            raise PermissionError("The provided token has expired.")
        return super()._open(path, mode, *rest, **options)


@pytest.fixture
def store() -> Iterator[type[ExpiringStore]]:
    fsspec.register_implementation("expiring", ExpiringStore, clobber=True)
    yield ExpiringStore
    ExpiringStore.expired = False
    ExpiringStore.store.clear()


def test_a_token_that_expires_while_the_output_is_written(
    store: type[ExpiringStore], job: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in.txt").write_text("now\n" * 20)
    order = job.order(tmp_path / "in.txt", tmp_path / "out.txt")
    merge = run_module.merge

    def expire(*what: Any) -> Any:
        store.expired = True
        return merge(*what)

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "merge", expire)
        place = r"expiring://job/.*/input/0000000\.parquet"
        with facts.raises(DataError, place, "cannot be read", r"The provided token has expired\.", "run again"):
            run_job(JobRequest("tiny"), order, JobFolder("expiring://job"), job.means)
    store.expired = False
    assert run_job(JobRequest("tiny"), order, JobFolder("expiring://job"), job.means).translated == 0
