"""Artifacts that a process reads for hours without having made them, such as the model of a translation job.

Beside the artifact lies a file `<fingerprint>.<random>.used`, locked for as long as the process lives: what a dead one
has left is locked by nobody, and counts for nothing.
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
    """Keep a folder from `gc` while the block lasts, if it is an artifact of the store."""
    folder = folder.absolute()
    file = folder.with_name(f"{folder.name}.{secrets.token_hex(4)}{_USED}")
    with ExitStack() as stack:
        if folder.parent.parent == store.root:
            stack.callback(partial(file.unlink, missing_ok=True))
            with suppress(OSError):  # a store that we may only read: nobody collects garbage there for us
                stack.enter_context(FileLock(file))
        yield


def used(store: Store) -> set[tuple[str, str]]:
    """Stage and fingerprint of each artifact that a process of this machine reads."""
    found = set()
    for file in store.root.glob(f"*/*{_USED}"):
        try:
            with FileLock(file, timeout=0):
                file.unlink(missing_ok=True)
        except Timeout:
            found.add((file.parent.name, file.name.partition(".")[0]))
    return found
