"""List, check and read the checkpoints of a run. The first process lists them for all processes.

On a file system that several nodes share, such as NFS, a file may stay invisible to another node for a minute after it
was written. If each process listed the checkpoints itself, some would resume from one checkpoint and some from another.
"""

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.distributed.checkpoint.api import CheckpointException

from nmt_core.errors import DataError, StageError, words_of
from nmt_core.train.checksums import diagnose
from nmt_core.train.distributed import World
from nmt_core.train.reading import METADATA as _METADATA
from nmt_core.train.reading import index_of, other_versions, read_checkpoint

_LEFT_OUT = ".metadata.left-out"
_MOST_OF_A_CAUSE = 500  # characters
_SECONDS_UNTIL_SEEN = 90.0
_SECONDS_BETWEEN_LOOKS = 0.2


class DamagedError(Exception):
    """A checkpoint cannot be read. The message holds the reason."""


class OtherVersionsError(DamagedError):
    """A checkpoint cannot be read here, and another Python or PyTorch wrote it.

    Args:
        problem: reason why it cannot be read.
        versions: versions that wrote it.
    """

    def __init__(self, problem: str, versions: str) -> None:
        super().__init__(problem)
        self.versions = versions


@dataclass(frozen=True)
class _Size:
    """Size of a file of a checkpoint."""

    content: int
    """Bytes that the index lists. 0 for the index itself."""
    in_all: int
    """Bytes of the whole file, as the first process sees it, but at least `content`."""


class CheckpointFolder:
    """Folder of the checkpoints of one training run. Every process has an instance.

    Args:
        folder: folder with a subfolder for each checkpoint, named by its update.
        world: the processes.
    """

    def __init__(self, folder: Path, world: World) -> None:
        self._folder = folder
        self._world = world

    def complete(self) -> list[Path]:
        """Return the complete checkpoints that the first process sees, oldest first. Called by every process."""
        names = [path.name for path in self.seen()] if self._world.is_first else []
        return [self._folder / name for name in self._world.agree(names)]

    def seen(self) -> list[Path]:
        """Return the complete checkpoints that this process sees, oldest first."""
        return sorted(file.parent for file in self._folder.glob(f"*/{_METADATA}"))

    def all(self) -> set[Path]:
        """Return all checkpoints that this process sees, complete or torn."""
        return set(self._folder.iterdir())

    def require_all(self, path: Path) -> None:
        """Wait until every process sees all files that the `.metadata` of a checkpoint lists, and check them.

        Called by every process. Each process checks some of the files, and all return or raise together.

        Raises:
            DamagedError: a file is missing or differs from its checksum.
            StageError: the first process sees all files, and another process does not.
        """
        files, problem = self._world.agree(_files_of(path) if self._world.is_first else ({}, ""))
        if problem:
            raise self._unreadable(path, problem)
        of_first, *of_others = self._of_each(self._missing(path, files))
        if of_first:
            raise DamagedError(of_first)
        if unseen := next(filter(None, of_others), None):
            raise StageError(
                f"checkpoint {int(path.name):,}: {unseen} on a node after {_SECONDS_UNTIL_SEEN:.0f} s, and complete on "
                "the first: check that all nodes share the file system of NMT_HOME, then run the same command again"
            )
        # The index is left out: reading it has checked it.
        mine = sorted(files.keys() - {_METADATA})[self._world.rank :: self._world.size]
        damages = (diagnose(path / name, files[name].content) for name in mine)
        if damage := next(filter(None, self._of_each(next(filter(None, damages), None))), None):
            raise DamagedError(damage)

    def read(self, state: dict[str, Any], path: Path) -> None:
        """Check a checkpoint and load it into `state`, in place. Called by every process.

        Raises:
            DamagedError: a process cannot read it. Raised in all processes.
            StageError: a process does not see all of it, see `require_all`.
        """
        self.require_all(path)
        problem: CheckpointException | DataError | None = None
        try:
            read_checkpoint(state, path)
        except (CheckpointException, DataError) as error:
            problem = error
        if self._world.any(problem is not None):
            cause = cause_of(problem)[:_MOST_OF_A_CAUSE] if problem else "another process logs the cause"
            raise self._unreadable(path, cause)

    def _unreadable(self, path: Path, problem: str) -> DamagedError:
        """Return the error for a checkpoint that cannot be read. Called by every process."""
        versions = self._world.agree(other_versions(path) if self._world.is_first else "")
        return OtherVersionsError(problem, versions) if versions else DamagedError(problem)

    def _of_each(self, problem: str | None) -> list[str]:
        """Return the problem of each process, by rank, empty if it has none. Called by every process with its own."""
        return [gathered for (gathered,) in self._world.gather([problem or ""])]

    @staticmethod
    def leave_out(path: Path) -> None:
        """Mark a checkpoint as torn, so that it is removed like other torn ones. Called by the first process."""
        with suppress(FileNotFoundError):
            (path / _METADATA).rename(path / _LEFT_OUT)

    def _missing(self, path: Path, files: dict[str, _Size]) -> str | None:
        """Return the first file of a checkpoint that this process does not see completely, or None if it sees all.

        With several nodes, wait up to 90 seconds for the files to appear.
        """
        is_one_node = self._world.local_size >= self._world.size
        deadline = time.monotonic() + (0.0 if is_one_node else _SECONDS_UNTIL_SEEN)
        while True:
            sizes = ((name, bytes_of(path / name), size.in_all) for name, size in files.items())
            short = next(((name, size, total) for name, size, total in sizes if size < total), None)
            if not short:
                return None
            if time.monotonic() >= deadline:
                name, size, total = short
                return f"{path / name} has {size:,} of {total:,} bytes" if size >= 0 else f"{path / name} is missing"
            time.sleep(_SECONDS_BETWEEN_LOOKS)


def cause_of(error: BaseException) -> str:
    """Return the cause of an error in one line, without the wrapping and the tracebacks of all processes."""
    if isinstance(error, CheckpointException):
        return "; ".join(f"process {rank}: {cause_of(inner)}" for rank, (inner, _) in sorted(error.failures.items()))
    return " ".join(str(error).split()) or type(error).__name__


def bytes_of(file: Path) -> int:
    """Return the current size of a file, or -1 if it cannot be opened."""
    try:
        with file.open("rb") as opened:  # opening asks the server of NFS, which may cache sizes
            return opened.seek(0, 2)
    except OSError:
        return -1


def _files_of(path: Path) -> tuple[dict[str, _Size], str]:
    """Return the files of a checkpoint with their sizes, and the reason if they cannot be known."""
    try:
        pieces = index_of(path).storage_data or {}
    except Exception as error:
        return {}, f"{path / _METADATA} cannot be read ({words_of(error)})"
    ends: dict[str, int] = {}
    for piece in pieces.values():
        ends[piece.relative_path] = max(ends.get(piece.relative_path, 0), piece.offset + piece.length)
    files = {name: _Size(end, max(end, bytes_of(path / name))) for name, end in ends.items()}
    return files | {_METADATA: _Size(0, bytes_of(path / _METADATA))}, ""
