"""Read members of zip and tar archives as streams. Nothing is unpacked to disk.

Unsafe archives are rejected with the reason: a member name that leads out of the archive's folder, a link or device in
place of a file, a member protected by a password, and a size out of proportion (see `streams`).
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
from nmt_core.formats.languages import fit
from nmt_core.formats.layout import FileSide, Layout, TextFile
from nmt_core.formats.streams import ByteStream, Readable, unpacked

_NO_DATA = re.compile(
    r"\.|(?:readme|licen[cs]e|copying|changelog|notice|info)(?![a-z])|.*\.(?:md|pdf|html?|ids)$", re.IGNORECASE
)
_TEXT_SUFFIX = re.compile(r"\.(txt|sgm|tok|lines)$", re.IGNORECASE)
_LISTED = 10


@dataclass(frozen=True)
class Members:
    """Members of an archive that hold a side or both sides, in reading order."""

    path: Path
    kind: Kind
    side: FileSide
    entries: tuple[tars.Entry, ...]


def select(file: TextFile, kind: Kind, layout: Layout) -> list[Members]:
    """Return the members to read, sorted by name: one group, or two for a source and a target in one archive.

    The candidates are the members that `file.member` matches, or else the members that look like data. The function
    picks the candidates whose names end with the side's language. If there are none, it picks every match of
    `file.member`, or the only candidate.

    Raises:
        DataError: no member fits, or the choice is ambiguous. Also if a name leads out of the archive, or the archive
            is truncated or damaged.
    """
    entries = (_zip_entries if kind is Kind.ZIP else tars.entries)(file.path)
    chosen = _chosen([entry.name for entry in entries], file, layout)
    return [
        Members(file.path, kind, side, tuple(sorted(entry for entry in entries if entry.name in names)))
        for side, names in chosen.items()
    ]


def open_members(members: Members) -> Iterator[ByteStream]:
    """Yield the members one by one. A stream can be read until the next one is requested.

    Raises:
        DataError: a member cannot be read safely, or the archive is truncated or damaged.
    """
    contents = (_zip_contents if members.kind is Kind.ZIP else tars.contents)(members.path, members.entries)
    for entry, content, packed_bytes in contents:
        yield _member(f"{members.path}: {entry.name}", content, members.kind.lstrip("."), packed_bytes)


def _member(name: str, content: Readable, packing: str, packed_bytes: int) -> ByteStream:
    return unpacked(ByteStream(name, content, packing, lambda: packed_bytes))


def _chosen(names: Sequence[str], file: TextFile, layout: Layout) -> dict[FileSide, list[str]]:
    """Return the names of the members to read, by the side that they hold."""
    if unsafe := next(filter(_leads_out, names), None):
        raise DataError(f"{file.path}: the member {unsafe!r} leads out of the archive: do not trust this file")
    if file.member:
        fitting = otherwise = [name for name in names if _matches(name, file.member)]
        condition = f"matches {file.member!r}"
    else:
        fitting = [name for name in names if not _is_beside_the_data(name)]
        otherwise = fitting if len(fitting) == 1 else []
        condition = f"is clearly the text ({_wanted(file.side, layout)})"
    if file.side == "both":
        chosen = _as_pair(fitting, layout) or {file.side: otherwise}
    else:
        chosen = {file.side: _of_side(fitting, file.side, layout) or otherwise}
    if not all(chosen.values()):
        raise DataError(f"{file.path}: no member {condition}: name it with `member`; there are {_some(names)}")
    return chosen


def _as_pair(names: Sequence[str], layout: Layout) -> dict[FileSide, list[str]]:
    """Return the one member of each language, as in the Moses archives of OPUS, or nothing if that is not unique."""
    sides: dict[FileSide, list[str]] = {side: _of_side(names, side, layout) for side in SIDES}
    return sides if all(len(members) == 1 for members in sides.values()) else {}


def _of_side(names: Sequence[str], side: FileSide, layout: Layout) -> list[str]:
    """Return the names that end with the side's language, preferably the ones with a partner in the other language."""
    own, other = layout.source_language, layout.target_language
    if side == "target":
        own, other = other, own
    parts = {name: _stem_and_language(name) for name in names}
    partners = {stem for stem, tag in parts.values() if fit(tag, other)}
    fits = {name: fit(tag, own) for name, (_, tag) in parts.items()}
    best = max(fits.values(), default=0)
    stems = {name: stem for name, (stem, _) in parts.items() if fits[name] and fits[name] == best}
    return [name for name, stem in stems.items() if stem in partners] or list(stems)


def _stem_and_language(name: str) -> tuple[str, str]:
    """Split a name into stem and language.

    `Tatoeba.de-en.de.gz` gives `Tatoeba.de-en` and `de`. `newstest2014-deen-src.de.sgm` gives `newstest2014-deen` and
    `de`.
    """
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
                    f"{path}: the member {entry.name!r} needs a password: unpack it, and name the text inside"
                )
            # The upper half is the Unix mode. Archives from other systems leave it 0.
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
        raise DataError(
            f"{path}: compressed with a method that Python cannot read ({error}): unpack it yourself"
        ) from None
