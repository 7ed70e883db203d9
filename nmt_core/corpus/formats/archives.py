"""Members of zip and tar archives as streams; nothing is unpacked to the disk.

Refused with the reason: a member name that leads out of the archive's folder, links and devices in place of a file,
members under a password, and sizes out of proportion (see `streams`).
"""

import fnmatch
import re
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from nmt_core.corpus.formats.kinds import Kind, data_name
from nmt_core.corpus.formats.languages import same_language
from nmt_core.corpus.formats.layout import Layout, Side, TextFile
from nmt_core.corpus.formats.streams import ByteStream, Readable, open_file, unpacked
from nmt_core.errors import DataError

_NO_DATA = re.compile(
    r"\.|(?:readme|licen[cs]e|copying|changelog|notice|info)(?![a-z])|.*\.(?:md|pdf|html?|ids)$", re.IGNORECASE
)
_TEXT_SUFFIX = re.compile(r"\.(txt|sgm|tok|lines)$", re.IGNORECASE)
_LISTED = 10


def open_members(file: TextFile, kind: Kind, layout: Layout) -> Iterator[ByteStream]:
    """The members that `file.member` or else its side names, in the order of their names.

    A stream can be read until the next one is asked for.

    Raises:
        DataError: no member fits, one cannot be read safely, or the archive is truncated or damaged.
    """
    opener = _zip_members if kind is Kind.ZIP else _tar_members
    return opener(file.path, lambda names: chosen(names, file, layout))


def chosen(names: Sequence[str], file: TextFile, layout: Layout) -> list[str]:
    """Names of the members to read, sorted.

    Raises:
        DataError: there are none, or it is not clear which.
    """
    if unsafe := next(filter(_leads_out, names), None):
        raise DataError(f"{file.path}: the member {unsafe!r} leads out of the archive: do not trust this file")
    if file.member:
        found, wanted = [name for name in names if _matches(name, file.member)], f"matches {file.member!r}"
    else:
        data = [name for name in names if not _is_beside_the_data(name)]
        only = data if len(data) == 1 else []
        found = only if file.side == "both" else _of_side(data, file.side, layout) or only
        wanted = f"is clearly the text ({_wanted(file.side, layout)})"
    if not found:
        raise DataError(f"{file.path}: no member {wanted}: name it with `member`; there are {_some(names)}")
    return sorted(found)


def _of_side(names: Sequence[str], side: Side, layout: Layout) -> list[str]:
    """The names that end with the side's language; those with a partner in the other language, if there are any."""
    own, other = layout.source_language, layout.target_language
    if side == "target":
        own, other = other, own
    parts = {name: _stem_and_language(name) for name in names}
    partners = {stem for stem, tag in parts.values() if same_language(tag, other)}
    found = {name: stem for name, (stem, tag) in parts.items() if same_language(tag, own)}
    return [name for name, stem in found.items() if stem in partners] or list(found)


def _stem_and_language(name: str) -> tuple[str, str]:
    """`Tatoeba.de-en`, `de` of `Tatoeba.de-en.de.gz`; `newstest2014-deen`, `de` of `newstest2014-deen-src.de.sgm`."""
    stem, _, tag = _TEXT_SUFFIX.sub("", data_name(name)).rpartition(".")
    return str(PurePosixPath(name).parent / re.sub(r"[-.](src|ref)$", "", stem)), tag


def _is_beside_the_data(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(_NO_DATA.match(path.name)) or "__MACOSX" in path.parts


def _matches(name: str, member: str) -> bool:
    return any(fnmatch.fnmatchcase(way, member) for way in (name.removeprefix("./"), PurePosixPath(name).name))


def _leads_out(name: str) -> bool:
    path = PurePosixPath(name.replace("\\", "/"))
    return path.is_absolute() or ".." in path.parts or bool(re.match("[A-Za-z]:", name))


def _wanted(side: Side, layout: Layout) -> str:
    if side == "both":
        return "the only data file"
    return f"a name that ends with .{layout.source_language if side == 'source' else layout.target_language}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return (", ".join(names[:_LISTED]) or "none at all") + more


def _zip_members(path: Path, choose: Callable[[Sequence[str]], list[str]]) -> Iterator[ByteStream]:
    with _explained(path, "zip"), zipfile.ZipFile(path) as archive:
        infos = {info.filename: info for info in archive.infolist() if not info.is_dir()}
        for name in choose(list(infos)):
            info = infos[name]
            if info.flag_bits & 1:
                raise DataError(f"{path}: the member {name!r} is under a password: unpack it, and name the text inside")
            # The upper half is the mode of Unix; archives from elsewhere leave it 0.
            if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
                raise DataError(
                    f"{path}: the member {name!r} is a link or a device, not a file: do not trust this file"
                )
            with archive.open(info) as content:
                yield _member(path, name, cast(Readable, content), "zip", info.compress_size)


def _member(path: Path, name: str, content: Readable, packing: str, packed_bytes: int) -> ByteStream:
    return unpacked(ByteStream(f"{path}: {name}", content, packing, lambda: packed_bytes))


def _tar_members(path: Path, choose: Callable[[Sequence[str]], list[str]]) -> Iterator[ByteStream]:
    """Members in the order of their names; the archive is read again where it has them in another order."""
    with _open_tar(path) as archive:
        names = [info.name for info in archive if not info.isdir()]
    waiting = choose(names)
    while waiting:
        with _open_tar(path) as archive:
            for info in archive:
                if waiting and info.name == waiting[0] and not info.isdir():
                    waiting.pop(0)
                    if not info.isreg() or info.issparse():
                        raise DataError(
                            f"{path}: the member {info.name!r} is a link, a device or a sparse file, not a plain file: "
                            "do not trust this archive"
                        )
                    yield _member(path, info.name, cast(Readable, archive.extractfile(info)), "tar", info.size)


@contextmanager
def _open_tar(path: Path) -> Iterator[tarfile.TarFile]:
    with (
        open_file(path) as stream,
        _explained(path, "tar"),
        tarfile.open(fileobj=cast(BinaryIO, stream), mode="r|", encoding="utf-8") as archive,
    ):
        yield archive


@contextmanager
def _explained(path: Path, packing: str) -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError) as error:
        raise DataError(f"{path}: the {packing} archive is truncated or damaged ({error}): fetch it again") from None
    except NotImplementedError as error:
        raise DataError(f"{path}: packed in a way that Python cannot read ({error}): unpack it yourself") from None
