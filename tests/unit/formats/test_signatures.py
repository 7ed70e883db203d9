"""Bytes with which a file must begin, by its name."""

import pytest

from nmt_core.formats.signatures import PACKED_SUFFIX, broken_promise, promised_packing

GZ, ZST, XZ = b"\x1f\x8b\x08\x00", b"\x28\xb5\x2f\xfd\x04", b"\xfd7zXZ\x00\x00"
BZ2 = b"BZh91AY&SY"


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("a.en.gz", GZ),
        ("A.TGZ", GZ),
        ("a.tar.zst", ZST),
        ("a.zst", b"\x5a\x2a\x4d\x18\x04"),  # a frame to be skipped comes first
        ("a.txz", XZ),
        ("a.tbz2", BZ2),
        ("a.bz2", b"BZh9\x17rE8P\x90"),  # of nothing
        ("a.zip", b"PK\x03\x04"),
        ("a.zip", b"PK\x05\x06"),  # without members
        ("a.parquet", b"PAR1"),
        ("a.mo", b"In Moldovan."),
        ("a.en", b"Any text."),
        ("download", b"Any text."),
    ],
)
def test_a_file_that_is_what_its_name_says(name: str, head: bytes) -> None:
    assert broken_promise(name, head) == ""


@pytest.mark.parametrize(
    ("name", "head", "suffix"),
    [
        ("a.en.gz", b"Text.", ".gz"),
        ("a.tgz", ZST, ".gz"),
        ("a.xz", GZ, ".xz"),
        ("a.bz2", b"BZhang came.", ".bz2"),
        ("a.zip", GZ, ".zip"),
        ("a.parquet", b"", ".parquet"),
    ],
)
def test_a_file_that_is_something_else(name: str, head: bytes, suffix: str) -> None:
    assert broken_promise(name, head) == suffix


def test_how_a_name_says_that_a_file_is_packed() -> None:
    assert [promised_packing(f"folder/a.{end}") for end in ("txt.GZ", "tgz", "tbz2", "zip", "en")] == [
        "gz",
        "gz",
        "bz2",
        "",
        "",
    ]
    assert PACKED_SUFFIX.sub("", "a.en.gz") == "a.en"
    assert PACKED_SUFFIX.sub("", "a.tgz") == "a.tgz"
