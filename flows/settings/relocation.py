"""Relocation of a home: after it was moved or copied, the addresses of files in MLflow's database are corrected.

MLflow stores the address of each file in full. Without a correction, a copied home would write its models into the home
that it was copied from, and a moved home would not find its own. So the home records its path. When it is used
elsewhere, its database is corrected before MLflow reads it. The addresses stay plain, and MLflow reads them without
this package.

Marks (see `marks`) of versions in the database are removed from this home only. If the home was copied, the marks in a
shared store belong to the home that it was copied from.
"""

import re
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from filelock import FileLock

from nmt_core.errors import ConfigError
from nmt_core.store.atomic import write_atomically

_PLACE = "place.txt"
_FILE = "file://"
_SERVERS = "servers.json"
_MARK_TAG = "nmt.mark"
_COLUMNS = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "storage_location"),
    ("model_versions", "source"),
    ("datasets", "dataset_source"),
    ("tags", "value"),
)
"""Columns with addresses of files. The last one holds tags, in which this package stores addresses."""
_SECONDS_FOR_THE_DATABASE = 60


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def follow(home: Path, database: Path, say: Callable[[str], None] = _say) -> None:
    """Correct the addresses in a home's database if the home was moved or copied.

    Args:
        home: Current folder of the home.
        database: MLflow's database, which need not exist.
        say: Callback that shows a message about the correction.

    Raises:
        ConfigError: The home was moved, and its database cannot be corrected.
    """
    if _noted(home) == home:
        return
    try:
        with FileLock(home / f"{_PLACE}.lock"):
            before = _noted(home) or _guessed(home, database)
            if before == home or (before and _is_same(before, home)):  # another name of the same folder is not a move
                return
            if before:
                count = _rewrite(database, before, home) if database.is_file() else 0
                (home / _SERVERS).unlink(missing_ok=True)  # belongs to the home that this one was copied from
                say(f"NMT_HOME has moved from {before} to {home}: corrected {count:,} addresses in MLflow's database.")
            write_atomically(home / _PLACE, str(home))
    except (OSError, sqlite3.Error) as error:
        if _noted(home):
            raise ConfigError(
                f"{home} was moved or copied from {_noted(home)}, and {database} cannot be corrected ({error}): end "
                "the programs that use it, make it writable, then run the same command again"
            ) from None
        # No move is known: a read-only home can be used


def _noted(home: Path) -> Path | None:
    """Return the path that the home recorded when it was last used, or None."""
    with suppress(OSError):
        return Path((home / _PLACE).read_text(encoding="utf-8"))
    return None


def _is_same(one: Path, other: Path) -> bool:
    with suppress(OSError):
        return one.samefile(other)
    return False


def _guessed(home: Path, database: Path) -> Path | None:
    """Return the former path of a home of an earlier version, which recorded no path, or None.

    It is found by the addresses in the database whose files exist in this home.
    """
    if not database.is_file():
        return None
    with closing(sqlite3.connect(database, timeout=_SECONDS_FOR_THE_DATABASE)) as connection:
        addresses = [str(address) for (address,) in connection.execute("select artifact_uri from runs")]
    for address in addresses:
        place = Path(unquote(urlsplit(address).path))
        for folder in place.parents:
            here = home / place.relative_to(folder)
            if place.is_relative_to(folder / "mlflow") and folder != home and here.is_dir():
                return folder
    return None


def _rewrite(database: Path, before: Path, home: Path) -> int:
    """Replace the former path in all addresses, in one transaction, and return their number."""
    changed = 0
    with closing(sqlite3.connect(database, timeout=_SECONDS_FOR_THE_DATABASE)) as connection, connection:
        connection.execute("begin immediate")
        for table, column in _COLUMNS:
            if column not in {name for _, name, *_ in connection.execute(f"pragma table_info({table})")}:
                continue  # another version of MLflow
            # constant names, for which SQL has no placeholders
            select = f"select rowid, {column} from {table} where {column} is not null"  # noqa: S608
            update = f"update {table} set {column} = ? where rowid = ?"  # noqa: S608
            rows = connection.execute(select).fetchall()
            both = ((row, text, moved(str(text), before, home)) for row, text in rows)
            new = [(now, row) for row, text, now in both if now != text]
            connection.executemany(update, new)
            changed += len(new)
        marks = connection.execute("select value from model_version_tags where key = ?", (_MARK_TAG,)).fetchall()
        for (mark,) in marks:
            (home / "artifacts" / "registered" / f"{mark}.json").unlink(missing_ok=True)
        connection.execute("delete from model_version_tags where key = ?", (_MARK_TAG,))
    return changed


def moved(text: str, before: Path, home: Path) -> str:
    """Return an address, or JSON with addresses, with the former path replaced. Other text is not changed."""
    for old, new in ((before.as_uri(), home.as_uri()), (str(before), str(home))):
        text = re.sub(rf'(?<![^"]){re.escape(old)}(?=["/]|$)', new.replace("\\", r"\\"), text)
    return text
