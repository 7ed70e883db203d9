"""Members of zip and tar archives as streams; nothing is unpacked to the disk.

Refused with the reason: a member name that leads out of the archive's folder, links and devices in place of a file,
members under a password, and sizes out of proportion (see `streams`).
"""

import fnmatch
import re
import stat
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import cast

from nmt_core.config import SIDES
from nmt_core.errors import DataError
from nmt_core.formats import tars
from nmt_core.formats.kinds import Kind, data_name
from nmt_core.formats.languages import same_language
from nmt_core.formats.layout import FileSide, Layout, TextFile
from nmt_core.formats.streams import ByteStream, Readable, unpacked

_NO_DATA = re.compile(
    r"\.|(?:readme|licen[cs]e|copying|changelog|notice|info)(?![a-z])|.*\.(?:md|pdf|html?|ids)$", re.IGNORECASE
)
_TEXT_SUFFIX = re.compile(r"\.(txt|sgm|tok|lines)$", re.IGNORECASE)
_LISTED = 10


@dataclass(frozen=True)
class Members:
    """Members of an archive that hold a side, or both, in the order in which they are to be read."""

    path: Path
    kind: Kind
    side: FileSide
    entries: tuple[tars.Entry, ...]


def select(file: TextFile, kind: Kind, layout: Layout) -> list[Members]:
    """What to read of an archive, sorted by name. For both sides, it may be two parts: the source and the target.

    Of the members that `file.member` fits, or else of those that look like data, the ones are read whose names end
    with the side's language; if there are none, all that `file.member` fits, or the only one.

    Raises:
        DataError: no member fits, or it is not clear which; a name leads out of the archive; or the archive is
            truncated or damaged.
    """
    entries = (_zip_entries if kind is Kind.ZIP else tars.entries)(file.path)
    chosen = _chosen([entry.name for entry in entries], file, layout)
    return [
        Members(file.path, kind, side, tuple(sorted(entry for entry in entries if entry.name in names)))
        for side, names in chosen.items()
    ]


def open_members(members: Members) -> Iterator[ByteStream]:
    """The members one by one. A stream can be read until the next one is asked for.

    Raises:
        DataError: a member cannot be read safely, or the archive is truncated or damaged.
    """
    contents = (_zip_contents if members.kind is Kind.ZIP else tars.contents)(members.path, members.entries)
    for entry, content, packed_bytes in contents:
        yield _member(f"{members.path}: {entry.name}", content, members.kind.lstrip("."), packed_bytes)


def _member(name: str, content: Readable, packing: str, packed_bytes: int) -> ByteStream:
    return unpacked(ByteStream(name, content, packing, lambda: packed_bytes))


def _chosen(names: Sequence[str], file: TextFile, layout: Layout) -> dict[FileSide, list[str]]:
    """Names of the members to read, by what they hold."""
    if unsafe := next(filter(_leads_out, names), None):
        raise DataError(f"{file.path}: the member {unsafe!r} leads out of the archive: do not trust this file")
    if file.member:
        fitting = otherwise = [name for name in names if _matches(name, file.member)]
        wanted = f"matches {file.member!r}"
    else:
        fitting = [name for name in names if not _is_beside_the_data(name)]
        otherwise = fitting if len(fitting) == 1 else []
        wanted = f"is clearly the text ({_wanted(file.side, layout)})"
    if file.side == "both":
        chosen = _as_pair(fitting, layout) or {file.side: otherwise}
    else:
        chosen = {file.side: _of_side(fitting, file.side, layout) or otherwise}
    if not all(chosen.values()):
        raise DataError(f"{file.path}: no member {wanted}: name it with `member`; there are {_some(names)}")
    return chosen


def _as_pair(names: Sequence[str], layout: Layout) -> dict[FileSide, list[str]]:
    """The one member of each language, as in the Moses archives of OPUS; nothing if there are none or several."""
    sides: dict[FileSide, list[str]] = {side: _of_side(names, side, layout) for side in SIDES}
    return sides if all(len(found) == 1 for found in sides.values()) else {}


def _of_side(names: Sequence[str], side: FileSide, layout: Layout) -> list[str]:
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


def _wanted(side: FileSide, layout: Layout) -> str:
    source, target = f".{layout.source_language}", f".{layout.target_language}"
    if side == "both":
        return f"the only data file, or the only two that end with {source} and {target}"
    return f"a name that ends with {source if side == 'source' else target}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return (", ".join(names[:_LISTED]) or "none at all") + more


def _zip_entries(path: Path) -> list[tars.Entry]:
    with _explained(path), zipfile.ZipFile(path) as archive:
        infos = {info.filename: info for info in archive.infolist() if not info.is_dir()}
    return [tars.Entry(name, number, info.file_size) for number, (name, info) in enumerate(infos.items())]


def _zip_contents(path: Path, entries: Sequence[tars.Entry]) -> Iterator[tuple[tars.Entry, Readable, int]]:
    with _explained(path), zipfile.ZipFile(path) as archive:
        for entry in entries:
            info = archive.getinfo(entry.name)
            if info.flag_bits & 1:
                raise DataError(
                    f"{path}: the member {entry.name!r} is under a password: unpack it, and name the text inside"
                )
            # The upper half is the mode of Unix; archives from elsewhere leave it 0.
            if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
                raise DataError(
                    f"{path}: the member {entry.name!r} is a link or a device, not a file: do not trust this file"
                )
            with archive.open(info) as content:
                yield entry, cast(Readable, content), info.compress_size


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise DataError(f"{path}: the zip archive is truncated or damaged ({error}): fetch it again") from None
    except NotImplementedError as error:
        raise DataError(f"{path}: packed in a way that Python cannot read ({error}): unpack it yourself") from None
