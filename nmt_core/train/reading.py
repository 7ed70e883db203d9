"""Reading a checkpoint without letting it run code.

`torch.distributed.checkpoint` reads its index `.metadata` with `pickle.load`, and whatever is no tensor with
`torch.load(weights_only=False)`, so that who writes such a file chooses what is called. Here an index may name the
classes that an index is made of and nothing else, and other values are read with `weights_only`.

Which names an index has depends on the Python that wrote it too: `tests/golden/checkpoints` has one of each kind.
"""

import io
import pickle
from enum import Enum
from pathlib import Path, PosixPath
from typing import Any

import torch
from torch.distributed.checkpoint import filesystem, metadata
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.planner import ReadItem
from torch.distributed.checkpoint.state_dict_loader import load

from nmt_core.errors import DataError
from nmt_core.train.checksums import Checksum, diagnose, versions
from nmt_core.train.distributed import is_alone

_OF_AN_INDEX = {
    metadata: (
        *("Metadata", "MetadataIndex", "StorageMeta", "BytesStorageMetadata", "TensorStorageMetadata"),
        *("ChunkStorageMetadata", "TensorProperties", "_MEM_FORMAT_ENCODING"),
    ),
    filesystem: ("_StorageInfo",),
    torch: ("Size",),
    torch.serialization: ("_get_layout",),  # finds a layout by its name
}
_ENUMS: tuple[type[Enum], ...] = (metadata._MEM_FORMAT_ENCODING,)
_ALLOWED = {(module.__name__, name): getattr(module, name) for module, names in _OF_AN_INDEX.items() for name in names}
_PATHS = {("pathlib", "PosixPath"), ("pathlib._local", "PosixPath")}  # the second is that of Python 3.13
_GETATTR = ("builtins", "getattr")  # by which Python 3.11.0 to 3.11.3 pickles an enum

METADATA = ".metadata"
"""The index of a checkpoint. It is written last, and its presence marks a whole one."""


def read_checkpoint(state: dict[str, Any], checkpoint: Path) -> None:
    """Load a checkpoint into `state`, in place. Called by every process.

    Raises:
        DataError: it names what a checkpoint of ours does not, and what could be code.
        CheckpointException: it cannot be read, or is not of these tensors.
    """
    reader = _Reader(checkpoint)
    try:
        _refuse_code(reader)
        load(state, storage_reader=reader, planner=_Planner(), no_dist=is_alone())
    except (_NamesCodeError, CheckpointException) as error:
        failures = [failure for failure, _ in error.failures.values()] if isinstance(error, CheckpointException) else []
        for failure in (error, *failures):
            if isinstance(failure, _NamesCodeError):
                raise DataError(f"{checkpoint}: {failure}, and is refused, for it could run code") from None
        raise


def other_versions(checkpoint: Path) -> str:
    """Name the versions that wrote a checkpoint whose index is intact, or return "" if they are not known to differ."""
    file = checkpoint / METADATA
    try:
        checksum = Checksum.read(file)
    except OSError:
        return ""
    if not checksum or checksum.written_by == versions() or diagnose(file, checksum.content):
        return ""
    return checksum.written_by


def index_of(checkpoint: Path) -> metadata.Metadata:
    """What a checkpoint's `.metadata` says of its files and tensors.

    Raises:
        Exception: of any kind; a pickle that is cut off, damaged, or not ours fails in many ways.
    """
    return _Reader(checkpoint).read_metadata()


def _refuse_code(reader: "_Reader") -> None:
    """By every process: `load` would say of a refusal only that there is no index. It tells of all else, to all."""
    try:
        reader.read_metadata()
    except _NamesCodeError:
        raise
    except Exception:  # whatever a damaged file makes of unpickling
        return


class _NamesCodeError(Exception):
    """A pickle wants more than what belongs into it."""


def _member_of(owner: Any, name: Any) -> Enum:
    """Return a member of an enum that an index may have. Called by a pickle in place of `getattr`."""
    for enum in _ENUMS:
        if owner is enum and isinstance(name, str) and name in enum.__members__:
            member: Enum = enum[name]
            return member
    raise _NamesCodeError(f"its index asks for {name!r} of {owner!r}, which is no part of one")


class _Unpickler(pickle.Unpickler):
    """Of an index."""

    def find_class(self, module: str, name: str) -> Any:
        """A class by its names, if an index has it."""
        if (module, name) in _PATHS:
            return PosixPath
        if (module, name) in _ALLOWED:
            return _ALLOWED[module, name]
        if (module, name) == _GETATTR:
            return _member_of
        value = getattr(torch, name, None) if module == "torch" else None
        if isinstance(value, torch.dtype | torch.layout):
            return value
        raise _NamesCodeError(f"its index names {module}.{name}, which is no part of one")


class _Reader(filesystem.FileSystemReader):
    """Reads the index in such a way."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> metadata.Metadata:
        """As of `FileSystemReader`."""
        file = Path(self._get_metadata_path(kwargs.get("rank")))
        checksum = Checksum.read(file)
        if checksum and (problem := diagnose(file, checksum.content)):
            raise pickle.UnpicklingError(problem)
        content = io.BytesIO(file.read_bytes())
        index: metadata.Metadata = _Unpickler(content).load()
        if problem := diagnose(file, content.tell()):
            raise pickle.UnpicklingError(problem)
        if index.storage_meta is None:
            index.storage_meta = metadata.StorageMeta()
        index.storage_meta.load_id = self.load_id
        return index


class _Planner(DefaultLoadPlanner):
    """Reads in such a way what is no tensor: the progress, and numbers of the optimizer."""

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """As of `DefaultLoadPlanner`, which takes any pickle: ours is given one that has been read and written anew."""
        plain = io.BytesIO()
        try:
            torch.save(torch.load(value, weights_only=True), plain)
        except pickle.UnpicklingError:  # whose words advise to read it all the same
            raise _NamesCodeError(f"its value {read_item.dest_index.fqn} is more than text and numbers") from None
        plain.seek(0)
        super().load_bytes(read_item, plain)
