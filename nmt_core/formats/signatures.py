"""Recognize compressed files by their suffixes and files by their first bytes: one table for the whole package.

A *packing* compresses a single stream (gz, zst, xz, bz2). A `.tgz` file is a tar archive inside a packing.
"""

import re

PACKINGS = {"gz": b"\x1f\x8b", "zst": b"\x28\xb5\x2f\xfd", "xz": b"\xfd7zXZ\x00", "bz2": b"BZh"}
"""First bytes of a file, by the suffix of its packing.

They are not decisive: a zstd file may begin with a skippable frame, and plain text may begin with the bytes of bz2.
"""

PACKED_TARS = {"tgz": "gz", "txz": "xz", "tbz2": "bz2"}
"""Packing of a compressed tar archive, by its suffix."""

FILES = {
    "zip": (b"PK\x03\x04", b"PK\x05\x06"),
    "parquet": (b"PAR1",),
}
"""First bytes that a file may have, by a suffix that has only one meaning."""

PACKED_SUFFIX = re.compile(rf"\.({'|'.join(PACKINGS)})$", re.IGNORECASE)
"""Suffix at the end of the name of a file that is compressed as one stream."""

_SKIPPABLE_ZSTD_FRAME = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")
_BZ2_BLOCK = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")

HEAD_BYTES = 10
"""Number of bytes that suffice to detect a packing."""


def packing_of(head: bytes) -> str:
    """Return the packing that the first bytes show: `gz`, `zst`, `xz` or `bz2`, or an empty string if there is none."""
    if _SKIPPABLE_ZSTD_FRAME.match(head):
        return "zst"
    first_fit = next((packing for packing, magic in PACKINGS.items() if head.startswith(magic)), "")
    return first_fit if first_fit != "bz2" or _BZ2_BLOCK.match(head) else ""  # plain text may begin with "BZh"


def promised_packing(name: str) -> str:
    """Return the packing that a file name announces, for the file or for the tar archive in it. Empty means none."""
    suffix = name.lower().rpartition(".")[2]
    packing = PACKED_TARS.get(suffix, suffix)
    return packing if packing in PACKINGS else ""


def broken_promise(name: str, head: bytes) -> str:
    """Return the suffix of a name that announces other first bytes than these, or an empty string if they match."""
    if packing := promised_packing(name):
        return "" if packing_of(head) == packing else f".{packing}"
    suffix = name.lower().rpartition(".")[2]
    return "" if head.startswith(FILES.get(suffix, (b"",))) else f".{suffix}"
