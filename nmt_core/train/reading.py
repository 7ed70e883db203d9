"""Read a checkpoint without letting it run code.

`torch.distributed.checkpoint` reads its index `.metadata` with `pickle.load`, and values that are not tensors with
`torch.load(weights_only=False)`. So the author of such a file chooses which functions are called. Here an index may
name only the classes that an index consists of, and other values are read with `weights_only`.

The names in an index also depend on the Python that wrote it. `tests/golden/checkpoints` has one of each kind.
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
_PATHS = {("pathlib", "PosixPath"), ("pathlib._local", "PosixPath")}  # Python 3.13 writes the second name
_GETATTR = ("builtins", "getattr")  # Python 3.11.0 to 3.11.3 pickles an enum by it

METADATA = ".metadata"
"""Name of the index of a checkpoint. It is written last, and its presence marks a complete checkpoint."""


def read_checkpoint(state: dict[str, Any], checkpoint: Path) -> None:
    """Load a checkpoint into `state`, in place. Called by every process.

    Raises:
        DataError: the checkpoint names something that does not belong in a checkpoint and could run code.
        CheckpointException: the checkpoint cannot be read, or does not match these tensors.
    """
    reader = _Reader(checkpoint)
    try:
        _refuse_code(reader)
        load(state, storage_reader=reader, planner=_Planner(), no_dist=is_alone())
    except (_NamesCodeError, CheckpointException) as error:
        failures = [failure for failure, _ in error.failures.values()] if isinstance(error, CheckpointException) else []
        for failure in (error, *failures):
            if isinstance(failure, _NamesCodeError):
                raise DataError(f"{checkpoint}: {failure}, and is refused because it could run code") from None
        raise


def other_versions(checkpoint: Path) -> str:
    """Return the versions that wrote a checkpoint, if they differ from the present ones and its index is intact.

    Return "" otherwise, and where the versions are not known.
    """
    file = checkpoint / METADATA
    try:
        checksum = Checksum.read(file)
    except OSError:
        return ""
    if not checksum or checksum.written_by == versions() or diagnose(file, checksum.content):
        return ""
    return checksum.written_by


def index_of(checkpoint: Path) -> metadata.Metadata:
    """Return the index of a checkpoint, which lists its files and tensors.

    Raises:
        Exception: the index cannot be read. A truncated, damaged or foreign pickle raises errors of many types.
    """
    return _Reader(checkpoint).read_metadata()


def _refuse_code(reader: "_Reader") -> None:
    """Raise an error in every process if the index could run code.

    `load` would report such an index as missing. It reports all other errors to all processes.

    Raises:
        _NamesCodeError: the index names something that is not part of an index.
    """
    try:
        reader.read_metadata()
    except _NamesCodeError:
        raise
    except Exception:  # unpickling a damaged file raises errors of many types
        return


class _NamesCodeError(Exception):
    """A pickle names something that does not belong in it."""


def _member_of(owner: Any, name: Any) -> Enum:
    """Return a member of an enum that an index may have. A pickle calls this in place of `getattr`."""
    for enum in _ENUMS:
        if owner is enum and isinstance(name, str) and name in enum.__members__:
            member: Enum = enum[name]
            return member
    raise _NamesCodeError(f"its index gets the attribute {name!r} of {owner!r}, which is not part of an index")


class _Unpickler(pickle.Unpickler):
    """Unpickler of an index."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a class by its names, if it is part of an index."""
        if (module, name) in _PATHS:
            return PosixPath
        if (module, name) in _ALLOWED:
            return _ALLOWED[module, name]
        if (module, name) == _GETATTR:
            return _member_of
        value = getattr(torch, name, None) if module == "torch" else None
        if isinstance(value, torch.dtype | torch.layout):
            return value
        raise _NamesCodeError(f"its index names {module}.{name}, which is not part of an index")


class _Reader(filesystem.FileSystemReader):
    """Reader that unpickles the index without running code."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> metadata.Metadata:
        """Read the index as `FileSystemReader` does, and check its checksum."""
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
    """Planner that reads values that are not tensors, such as the progress, without running code."""

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Load a value as `DefaultLoadPlanner` does, which takes any pickle.

        The pickle is read with `weights_only`, and the planner gets a newly written one.
        """
        plain = io.BytesIO()
        try:
            torch.save(torch.load(value, weights_only=True), plain)
        except pickle.UnpicklingError:  # its message advises to read the file anyway
            raise _NamesCodeError(f"its value {read_item.dest_index.fqn} is more than text and numbers") from None
        plain.seek(0)
        super().load_bytes(read_item, plain)
