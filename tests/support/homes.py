"""Folders that are made once, and copied for each test that needs one."""

import shutil
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from filelock import FileLock

_DONE = "done"


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder that is made once for all processes that run tests side by side. No test may write to it."""
    base = factory.getbasetemp()
    folder = (base.parent if base.name.startswith("popen-") else base) / "made-once" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):  # the folder is made by its holder alone
        if not folder.with_suffix(f".{_DONE}").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            folder.with_suffix(f".{_DONE}").touch()
    return folder


def copy(home: Path, target: Path) -> None:
    """Copy a home. The copy names the new folder where the home names itself. Artifacts stay as they are."""
    shutil.copytree(home, target)
    old, new = str(home), str(target)
    for file in (path for path in target.rglob("*") if path.is_file() and path.parts[len(target.parts)] != "artifacts"):
        if file.suffix == ".db":
            _rename(file, old, new)
        elif (content := file.read_bytes()).find(old.encode()) >= 0:
            file.write_bytes(content.replace(old.encode(), new.encode()))


def _rename(database: Path, old: str, new: str) -> None:
    """Replace a text in all columns of a database."""
    with sqlite3.connect(database) as connection:
        tables = connection.execute("select name from sqlite_master where type = 'table' and sql not like '%VIRTUAL%'")
        for (table,) in tables.fetchall():
            for _, column, kind, *_ in connection.execute(f"pragma table_info('{table}')").fetchall():
                if kind.upper().startswith(("VARCHAR", "TEXT", "JSON", "CHAR", "CLOB")):
                    where = f"where instr({column}, ?)"
                    connection.execute(
                        f'update "{table}" set {column} = replace({column}, ?, ?) {where}', (old, new, old)
                    )
    connection.close()


def snapshot(home: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of change of each file, to compare them later."""
    found = (path for path in home.rglob("*") if path.is_file() and not path.name.endswith(("-shm", "-wal")))
    return {str(path.relative_to(home)): (path.stat().st_size, path.stat().st_mtime_ns) for path in found}


def changes(before: Mapping[str, tuple[int, int]], after: Mapping[str, tuple[int, int]]) -> list[str]:
    """Return a line for each file that differs between two snapshots, with the difference."""
    return [
        _change(file, before.get(file), after.get(file))
        for file in sorted({*before, *after})
        if before.get(file) != after.get(file)
    ]


def _change(file: str, before: tuple[int, int] | None, after: tuple[int, int] | None) -> str:
    if before is None or after is None:
        return f"{file}: {'new' if before is None else 'gone'}"
    if before[0] != after[0]:
        return f"{file}: {before[0]:,} bytes before, {after[0]:,} now"
    return f"{file}: written {(after[1] - before[1]) / 1e9:.1f} s later, with as many bytes"
