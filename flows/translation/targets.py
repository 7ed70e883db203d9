"""Checks that the target of a translation can be written, before hours of work."""

import secrets
import stat
from pathlib import Path

from nmt_core.errors import DataError, NmtError, words_of
from nmt_core.store import storage
from nmt_core.store.storage import local_path


def require_writable(target: str, *, as_folder: bool = False) -> None:
    """Check that the target can be written, before hours of work."""
    path = local_path(target)
    if path is None:
        require_writable_store(target)
        return
    if path.is_dir() and not as_folder:
        raise DataError(f"{target}: is a folder, but the input is one file: give a file to write")
    if path.exists() and not path.is_dir() and not path.is_file():
        raise DataError(
            f"{target}: is a {_special(path)}, which a job would replace with a file: leave out --output, and redirect "
            f"standard output: > {target}"
        )
    if not path.parent.is_dir():
        raise DataError(
            f"{target}: cannot be written because folder {path.parent} does not exist: create it, or choose another"
        )
    probe = Path(_probe(str(path)))
    try:
        probe.touch()
        probe.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"{target}: cannot be written ({error.strerror}): choose a writable folder") from None


def _special(path: Path) -> str:
    return "named pipe" if stat.S_ISFIFO(path.stat().st_mode) else "device"


def _probe(url: str) -> str:
    """Return a unique name, because several workers may begin at once."""
    return f"{url}.probe.{secrets.token_hex(4)}{storage.TEMPORARY}"


def require_writable_store(url: str) -> None:
    """Check that a store can be written. A folder of this machine is not checked."""
    if local_path(url):
        return
    probe = _probe(url)
    try:
        storage.write_bytes([b""], probe)
        storage.remove([probe])
    except NmtError:
        raise
    except Exception as error:  # each kind of store raises its own errors
        raise DataError(
            f"{url}: cannot be written ({words_of(error)}): check the address and your credentials"
        ) from None
