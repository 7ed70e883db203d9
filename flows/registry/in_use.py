"""Locks on artifacts that a process reads for hours without having made them, such as the model of a translation job.

A file `<fingerprint>.<random>.used` beside the artifact is locked for as long as the process lives. The file of a dead
process is not locked, and is ignored.
"""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from filelock import FileLock, Timeout

from nmt_core.store.artifacts import Store

_USED = ".used"


@contextmanager
def in_use(store: Store, folder: Path) -> Iterator[None]:
    """Protect a folder from `gc` while the block lasts, if it is an artifact of the store."""
    folder = folder.absolute()
    file = folder.with_name(f"{folder.name}.{secrets.token_hex(4)}{_USED}")
    with ExitStack() as stack:
        if folder.parent.parent == store.root:
            stack.callback(partial(file.unlink, missing_ok=True))
            with suppress(OSError):  # a read-only store: `gc` cannot run there either
                stack.enter_context(FileLock(file))
        yield


def used(store: Store) -> set[tuple[str, str]]:
    """Return the stage and fingerprint of each artifact that a process of this machine reads."""
    names = set()
    for file in store.root.glob(f"*/*{_USED}"):
        try:
            with FileLock(file, timeout=0):
                file.unlink(missing_ok=True)
        except Timeout:
            names.add((file.parent.name, file.name.partition(".")[0]))
    return names
