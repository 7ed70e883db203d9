"""Programs that judge candidates, each run of which is counted."""

import shlex
import sys
from pathlib import Path
from typing import Any

_PROGRAM = """
import json, os, sys, time, zlib
runs, fault = sys.argv[1:]
rows = [json.loads(line) for line in sys.stdin]
with open(runs, "a") as file:
    file.write(f"{len(rows)}\\n")
if fault == "dies":
    os.kill(os.getpid(), 9)
if fault == "hangs":
    time.sleep(600)
assert all(set(row) == {"source", "translation"} for row in rows), "no reference is known"
numbers = [zlib.crc32(f"{row['source']} {row['translation']}".encode()) for row in rows]
print(*numbers[1 if fault == "loses a row" else 0:], sep="\\n")
if fault == "fails":
    sys.exit("out of memory")
"""


def number_of(source: str, translation: str) -> int:
    """The number that the program gives."""
    import zlib

    return zlib.crc32(f"{source} {translation}".encode())


class CountedJudge:
    """Program that likes a candidate by chance, but always the same one."""

    def __init__(self, folder: Path) -> None:
        self.script, self.counts = folder / "judge.py", folder / "runs"
        self.script.write_text(_PROGRAM)

    def options(self, fault: str = "none", **values: Any) -> dict[str, Any]:
        """Options of the search under which the program chooses."""
        command = shlex.join([sys.executable, str(self.script), str(self.counts), fault])
        return {"rerank": "judge", "judge": {"name": "by-chance", "command": command} | values}

    @property
    def runs(self) -> list[int]:
        """Number of rows in each run."""
        return [int(line) for line in self.counts.read_text().split()] if self.counts.exists() else []
