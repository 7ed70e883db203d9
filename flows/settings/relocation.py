"""A home that was moved or copied: the addresses of files in MLflow's database follow it.

MLflow stores the address of each file in full. A copied home would write its models into the home that it was copied
from, and a moved one would not find its own. So the home notes where it is, and when it is started elsewhere its
database is corrected before MLflow reads it. Addresses stay plain ones, which MLflow reads without this package.

Marks (see `marks`) of versions in the database are taken from this home alone: if the home was copied, those in a
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
"""Where MLflow, and we in its tags, write addresses of files."""
_SECONDS_FOR_THE_DATABASE = 60


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def follow(home: Path, database: Path, say: Callable[[str], None] = _say) -> None:
    """See that a home's database names the files of this home.

    Args:
        home: where it is now.
        database: MLflow's, which may not be there.
        say: is told what was changed, if anything.

    Raises:
        ConfigError: the home was moved, and its database cannot be corrected.
    """
    if _noted(home) == home:
        return
    try:
        with FileLock(home / f"{_PLACE}.lock"):
            before = _noted(home) or _guessed(home, database)
            if before == home or (before and _is_same(before, home)):  # the same folder by another name has not moved
                return
            if before:
                count = _rewrite(database, before, home) if database.is_file() else 0
                (home / _SERVERS).unlink(missing_ok=True)  # of the home that this one was copied from
                say(f"This home was {before} and is {home} now: {count:,} addresses in MLflow's database follow it.")
            draft = home / f"{_PLACE}.partial"
            draft.write_text(str(home), encoding="utf-8")
            draft.replace(home / _PLACE)
    except (OSError, sqlite3.Error) as error:
        if _noted(home):
            raise ConfigError(
                f"{home} was moved or copied from {_noted(home)}, and {database} cannot be corrected ({error}): end "
                "what uses it, see that it can be written, then run the same command again"
            ) from None
        # Nothing is known of a move: a home that may only be read is read


def _noted(home: Path) -> Path | None:
    """Where the home was when it was last started; None: it does not say."""
    with suppress(OSError):
        return Path((home / _PLACE).read_text(encoding="utf-8"))
    return None


def _is_same(one: Path, other: Path) -> bool:
    with suppress(OSError):
        return one.samefile(other)
    return False


def _guessed(home: Path, database: Path) -> Path | None:
    """Where a home was that an earlier version made, which noted nothing: its database names files that are here."""
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
    """Put one place for the other in all addresses, in one transaction; how many there were."""
    changed = 0
    with closing(sqlite3.connect(database, timeout=_SECONDS_FOR_THE_DATABASE)) as connection, connection:
        connection.execute("begin immediate")
        for table, column in _COLUMNS:
            if column not in {name for _, name, *_ in connection.execute(f"pragma table_info({table})")}:
                continue  # of another version of MLflow
            # names of our own, which no placeholder can stand for
            asked = f"select rowid, {column} from {table} where {column} is not null"  # noqa: S608
            told = f"update {table} set {column} = ? where rowid = ?"  # noqa: S608
            rows = connection.execute(asked).fetchall()
            both = ((row, text, moved(str(text), before, home)) for row, text in rows)
            new = [(now, row) for row, text, now in both if now != text]
            connection.executemany(told, new)
            changed += len(new)
        marks = connection.execute("select value from model_version_tags where key = ?", (_MARK_TAG,)).fetchall()
        for (mark,) in marks:
            (home / "artifacts" / "registered" / f"{mark}.json").unlink(missing_ok=True)
        connection.execute("delete from model_version_tags where key = ?", (_MARK_TAG,))
    return changed


def moved(text: str, before: Path, home: Path) -> str:
    """An address, or JSON that holds some, with one place for the other; other text stays as it is."""
    for old, new in ((before.as_uri(), home.as_uri()), (str(before), str(home))):
        text = re.sub(rf'(?<![^"]){re.escape(old)}(?=["/]|$)', new.replace("\\", r"\\"), text)
    return text
