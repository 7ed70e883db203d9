"""Which checkpoints of a run are whole: the first process looks, and speaks for all.

On a file system that several nodes share, such as NFS, what one node has written may be unseen by another for a minute.
If each process looked for itself, some would go on from one checkpoint and some from another.
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
    """A checkpoint cannot be read; what is wrong with it."""


class OtherVersionsError(DamagedError):
    """A checkpoint cannot be read here, and is what another Python or PyTorch has written.

    Args:
        problem: what is wrong with it here.
        versions: that wrote it.
    """

    def __init__(self, problem: str, versions: str) -> None:
        super().__init__(problem)
        self.versions = versions


@dataclass(frozen=True)
class _Size:
    """Bytes of a file of a checkpoint."""

    content: int
    """Bytes that the index tells of; 0 for the index itself."""
    in_all: int
    """Bytes that the first process sees, or should see."""


class CheckpointFolder:
    """The checkpoints of one training run. Every process has one.

    Args:
        folder: holds a folder for each checkpoint, named by its update.
        world: the processes.
    """

    def __init__(self, folder: Path, world: World) -> None:
        self._folder = folder
        self._world = world

    def complete(self) -> list[Path]:
        """Whole checkpoints, oldest first: those that the first process sees. Called by every process."""
        names = [path.name for path in self.seen()] if self._world.is_first else []
        return [self._folder / name for name in self._world.agree(names)]

    def seen(self) -> list[Path]:
        """Whole checkpoints that this process sees, oldest first."""
        return sorted(file.parent for file in self._folder.glob(f"*/{_METADATA}"))

    def all(self) -> set[Path]:
        """What this process sees of whole and torn ones."""
        return set(self._folder.iterdir())

    def require_all(self, path: Path) -> None:
        """Wait until every process sees all that the `.metadata` of a checkpoint tells of, and check all of it.

        Called by every process. Each checks some of the files, and all come to the same end.

        Raises:
            DamagedError: something of it is missing, or not what was written; in all processes.
            StageError: the first process sees all of it, and another one does not; in all processes.
        """
        files, problem = self._world.agree(_files_of(path) if self._world.is_first else ({}, ""))
        if problem:
            raise self._unreadable(path, problem)
        of_first, *of_others = self._of_each(self._missing(path, files))
        if of_first:
            raise DamagedError(of_first)
        if unseen := next(filter(None, of_others), ""):
            raise StageError(
                f"checkpoint {int(path.name):,}: {unseen} on a node after {_SECONDS_UNTIL_SEEN:.0f} s, and whole on "
                "the first: see that all nodes share the file system of NMT_HOME, then run the same command again"
            )
        mine = sorted(files.keys() - {_METADATA})[
            self._world.rank :: self._world.size
        ]  # an index was checked when read
        damages = (diagnose(path / name, files[name].content) for name in mine)
        if damage := next(filter(None, self._of_each(next(filter(None, damages), ""))), ""):
            raise DamagedError(damage)

    def read(self, state: dict[str, Any], path: Path) -> None:
        """Check a checkpoint, and load it into `state`, in place. Called by every process.

        Raises:
            DamagedError: a process cannot read it; in all of them.
            StageError: as `require_all` raises it.
        """
        self.require_all(path)
        problem: CheckpointException | DataError | None = None
        try:
            read_checkpoint(state, path)
        except (CheckpointException, DataError) as error:
            problem = error
        if self._world.any(problem is not None):
            cause = cause_of(problem)[:_MOST_OF_A_CAUSE] if problem else "another process tells why"
            raise self._unreadable(path, cause)

    def _unreadable(self, path: Path, problem: str) -> DamagedError:
        """Return the error of a checkpoint that cannot be read. Called by every process."""
        versions = self._world.agree(other_versions(path) if self._world.is_first else "")
        return OtherVersionsError(problem, versions) if versions else DamagedError(problem)

    def _of_each(self, problem: str) -> list[str]:
        """Return the problem of each process, by rank. Called by every process with its own."""
        return [each for (each,) in self._world.gather([problem])]

    @staticmethod
    def leave_out(path: Path) -> None:
        """Let a checkpoint count as torn from now on, and be removed as these are. Called by the first process."""
        with suppress(FileNotFoundError):
            (path / _METADATA).rename(path / _LEFT_OUT)

    def _missing(self, path: Path, files: dict[str, _Size]) -> str:
        """What this process does not see of a checkpoint, even after some time if there are several nodes."""
        is_one_node = self._world.local_size >= self._world.size
        deadline = time.monotonic() + (0.0 if is_one_node else _SECONDS_UNTIL_SEEN)
        while True:
            found = ((name, bytes_of(path / name), size.in_all) for name, size in files.items())
            short = next(((name, size, wanted) for name, size, wanted in found if size < wanted), None)
            if not short:
                return ""
            if time.monotonic() >= deadline:
                name, size, wanted = short
                return f"{path / name} has {size:,} of {wanted:,} bytes" if size >= 0 else f"{path / name} is missing"
            time.sleep(_SECONDS_BETWEEN_LOOKS)


def cause_of(error: BaseException) -> str:
    """What went wrong, in one line: errors come wrapped, and with the tracebacks of all processes."""
    if isinstance(error, CheckpointException):
        return "; ".join(f"process {rank}: {cause_of(each)}" for rank, (each, _) in sorted(error.failures.items()))
    return " ".join(str(error).split()) or type(error).__name__


def bytes_of(file: Path) -> int:
    """Size of a file as the file system tells it now; -1 if there is none."""
    try:
        with file.open("rb") as opened:  # NFS asks its server when a file is opened, and may remember a size
            return opened.seek(0, 2)
    except OSError:
        return -1


def _files_of(path: Path) -> tuple[dict[str, _Size], str]:
    """Files of a checkpoint with their sizes; and why they cannot be known, if so."""
    try:
        pieces = index_of(path).storage_data or {}
    except Exception as error:
        return {}, f"{path / _METADATA} cannot be read ({words_of(error)})"
    ends: dict[str, int] = {}
    for piece in pieces.values():
        ends[piece.relative_path] = max(ends.get(piece.relative_path, 0), piece.offset + piece.length)
    files = {name: _Size(end, max(end, bytes_of(path / name))) for name, end in ends.items()}
    return files | {_METADATA: _Size(0, bytes_of(path / _METADATA))}, ""
