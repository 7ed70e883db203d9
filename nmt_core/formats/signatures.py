"""The suffixes of packed files, and the first bytes of files that are known by them: one table for all who ask.

What packs a single stream (gz, zst, xz, bz2) is a *packing*; a `.tgz` is a tar in one.
"""

import re

PACKINGS = {"gz": b"\x1f\x8b", "zst": b"\x28\xb5\x2f\xfd", "xz": b"\xfd7zXZ\x00", "bz2": b"BZh"}
"""First bytes by the suffix of the packing. A zstd file may begin otherwise, and a text with those of bz2."""

PACKED_TARS = {"tgz": "gz", "txz": "xz", "tbz2": "bz2"}
"""Packing by the suffix of a packed tar."""

FILES = {
    "zip": (b"PK\x03\x04", b"PK\x05\x06"),
    "parquet": (b"PAR1",),
}
"""The first bytes that a file may have, by a suffix that means nothing else."""

PACKED_SUFFIX = re.compile(rf"\.({'|'.join(PACKINGS)})$", re.IGNORECASE)
"""The end of the name of what is packed as one stream."""

_SKIPPABLE_ZSTD_FRAME = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")
_BZ2_BLOCK = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")

HEAD_BYTES = 10
"""As many bytes tell a packing."""


def packing_of(head: bytes) -> str:
    """`gz`, `zst`, `xz` or `bz2` by the first bytes; empty for anything else."""
    if _SKIPPABLE_ZSTD_FRAME.match(head):
        return "zst"
    found = next((packing for packing, magic in PACKINGS.items() if head.startswith(magic)), "")
    return found if found != "bz2" or _BZ2_BLOCK.match(head) else ""  # a text may well begin with its first letters


def promised_packing(name: str) -> str:
    """How a file, or the tar in it, is packed by its name; empty: it is not."""
    suffix = name.lower().rpartition(".")[2]
    packing = PACKED_TARS.get(suffix, suffix)
    return packing if packing in PACKINGS else ""


def broken_promise(name: str, head: bytes) -> str:
    """The suffix of a name that promises other first bytes than these; empty if it does not."""
    if packing := promised_packing(name):
        return "" if packing_of(head) == packing else f".{packing}"
    suffix = name.lower().rpartition(".")[2]
    return "" if head.startswith(FILES.get(suffix, (b"",))) else f".{suffix}"
