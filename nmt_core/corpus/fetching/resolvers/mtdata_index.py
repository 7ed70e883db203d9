"""Resolve mtdata:<id>: a corpus of the index of the `mtdata` package (Gowda et al. 2021), by its id.

Only the index is used: addresses, paths inside archives, and citations. A separate process reads it and ends with the
answer, for two reasons. The 290,000 entries take 600 MB, and the package reconfigures logging and runs files named
mtdata*.py in the working folder. The package keeps its index in the folder that MTDATA names (~/.mtdata). It builds the
index once, in half a minute.
"""

import functools
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from nmt_core.config import SIDES, Side
from nmt_core.corpus.fetching.addresses import RequestedFile, Resolution
from nmt_core.corpus.fetching.resolvers.question import Question
from nmt_core.errors import DataError
from nmt_core.formats.languages import same_language

_LOOKUP = Path(__file__).with_name("mtdata_lookup.py")
_NO_PACKAGE = 3  # exit code of the lookup
_ONE_AT_A_TIME = threading.Lock()
_ONE_FILE_FOR_BOTH = ("tmx", "tsv", "wmt21xml", "csvwithheader")
_READABLE = (*_ONE_FILE_FOR_BOTH, "txt", "sgm", "raw")


def resolve(question: Question) -> Resolution:
    """Return the files of an id. This needs no network.

    Raises:
        DataError: the package is not installed, the id is unknown, or the format is not supported.
    """
    ids = {other.partition(":")[2] for other in question.others if other.startswith("mtdata:")} | {question.rest}
    with _ONE_AT_A_TIME:
        entry = _look_up(tuple(sorted(ids)))[question.rest]
    if "close" in entry:
        hint = f"did you mean {', '.join(entry['close'])}? " if entry["close"] else ""
        raise DataError(f"{question.address}: mtdata has no such id: {hint}`mtdata list` lists them all")
    return resolution_of(entry, question)


def resolution_of(entry: dict[str, Any], question: Question) -> Resolution:
    """Return the files of an index entry for the languages of the recipe.

    Raises:
        DataError: the entry is in other languages or in an unsupported format.
    """
    sides = _sides(entry["languages"], question)
    addresses = [entry["url"]] if isinstance(entry["url"], str) else list(entry["url"])
    form = entry["in_ext"] or next((form for form in _ONE_FILE_FOR_BOTH if form in entry["ext"]), "txt")
    members = entry["in_paths"] or []
    if form not in _READABLE or len(addresses) > 2:
        raise DataError(
            f"{question.address}: is in the format {form!r}, which is not supported: get it with "
            f"`mtdata get`, and name the files"
        )
    if len(addresses) == 2:
        files = [RequestedFile(address, side) for address, side in zip(addresses, sides, strict=True)]
    elif form in _ONE_FILE_FOR_BOTH or len(members) < 2:
        files = [RequestedFile(addresses[0], "both", member=member) for member in members or [""]]
    else:
        files = [
            RequestedFile(addresses[0], side, member=member) for side, member in zip(sides, members[:2], strict=True)
        ]
    files.sort(key=lambda file: (*SIDES, "both").index(file.side))
    columns = {}
    if entry["cols"] or "tsv" in form or form == "csvwithheader":
        columns = {
            f"{side}_column": str(column + 1) for side, column in zip(sides, entry["cols"] or (0, 1), strict=True)
        }
    citation = "\n\n".join(entry["citations"])
    return Resolution(tuple(files), citation=citation, url=", ".join(addresses), **columns)


def _sides(languages: list[str], question: Question) -> tuple[Side, Side]:
    """Return the sides of the recipe to which the first and the second language of an entry belong."""
    source, target = question.languages.tag("source"), question.languages.tag("target")
    if len(languages) == 2:
        first, second = languages
        if same_language(first, source) and same_language(second, target):
            return "source", "target"
        if same_language(first, target) and same_language(second, source):
            return "target", "source"
    raise DataError(
        f"{question.address}: is in {' and '.join(languages)}, but the recipe is from {source} to {target}: name "
        "another id"
    )


@functools.lru_cache(maxsize=1)
def _look_up(ids: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Return the index's information about each id."""
    with tempfile.TemporaryDirectory() as empty:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        command = [sys.executable, "-P", str(_LOOKUP), *ids]
        done = subprocess.run(command, cwd=empty, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == _NO_PACKAGE:
        raise DataError(f"mtdata:{ids[0]}: needs the package mtdata: pip install 'nmt-pipeline[mtdata]'")
    if done.returncode:
        problem = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise DataError(f"mtdata:{ids[0]}: the index of mtdata cannot be read ({problem}): reinstall the package")
    answer: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return answer
