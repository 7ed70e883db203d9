"""Resolve hf:org/name@revision/pattern: Parquet files of a dataset on the Hugging Face Hub, over plain HTTP.

The pattern is the folder of a configuration, or a path with * in it. Without a pattern, all Parquet files are meant. A
branch is resolved to its commit, so that the addresses in the lock file stay valid. HF_ENDPOINT names another hub, as
it does for the hub's own tools.
"""

import json
import os
import re
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import quote

from nmt_core.corpus.fetching.addresses import RequestedFile, Resolution
from nmt_core.corpus.fetching.resolvers.question import Question
from nmt_core.errors import DataError

_ADDRESS = re.compile(r"([\w.-]+/[\w.-]+)(?:@(refs/(?:convert|pr)/[\w.-]+|[^/]+))?(?:/(.+))?")
_COMMIT = re.compile(r"/resolve/([0-9a-f]{40})/")
_SPLIT = re.compile(r"(train|validation|valid|dev|test)(?=[-_./]|$)")
_MANY = 5
_SHOWN = 200  # characters of an answer in a message


def resolve(question: Question) -> Resolution:
    """Return the files of the commit that the lock file records, or else of the revision's current commit.

    Raises:
        DataError: the address is wrong, no file there is Parquet, or training and test text would be mixed.
    """
    match = _ADDRESS.fullmatch(question.rest)
    if not match:
        raise DataError(
            f"{question.address}: must read hf:ORG/NAME@REVISION, and may end in /CONFIGURATION or /PATTERN, as in "
            "hf:Helsinki-NLP/opus-100@main/en-ko/train-*.parquet"
        )
    name, revision, pattern = match[1], match[2] or "main", match[3] or ""
    hub = os.environ.get("HF_ENDPOINT", "").rstrip("/") or "https://huggingface.co"
    page = f"{hub}/datasets/{name}"
    known = _COMMIT.search(question.known[0]) if question.known else None
    if not question.ask:
        return Resolution(
            tuple(RequestedFile(file, "both", sha256=question.sha256) for file in question.known), url=page
        )
    about = f"{hub}/api/datasets/{name}/revision/{known[1] if known else quote(revision, safe='')}"
    info, _ = question.ask(about)
    if not (isinstance(info, dict) and isinstance(info.get("sha"), str)):
        raise _unexpected(question.address, about, info)
    card_data = info.get("cardData")
    card = card_data if isinstance(card_data, dict) else {}
    files = _parquet_files(question, f"{hub}/api/datasets/{name}/tree/{info['sha']}?recursive=true")
    files = {path: sha256 for path, sha256 in files.items() if _fits(path, pattern)}
    _refuse(question.address, sorted(files), pattern)
    if question.sha256 and len(files) > 1:
        raise DataError(f"{question.address}: {len(files)} files, which one sha256 cannot describe: remove sha256")
    requested = [
        RequestedFile(f"{page}/resolve/{info['sha']}/{quote(path)}", "both", sha256=question.sha256 or sha256)
        for path, sha256 in sorted(files.items())
    ]
    licence = card.get("license") or ""
    return Resolution(
        tuple(requested),
        licence=", ".join(licence) if isinstance(licence, list) else str(licence),
        citation=str(info.get("citation") or ""),
        url=page,
    )


def _parquet_files(question: Question, address: str) -> dict[str, str]:
    """Return the path and sha256 (empty if the hub gives none) of every Parquet file, over all pages of the list."""
    assert question.ask
    hashes: dict[str, str] = {}
    while address:
        requested = address
        entries, address = question.ask(requested)
        if not (isinstance(entries, list) and all(_is_file_entry(entry) for entry in entries)):
            raise _unexpected(question.address, requested, entries)
        for entry in entries:
            if entry["path"].endswith(".parquet"):
                hashes[entry["path"]] = (entry.get("lfs") or {}).get("oid", "")
    return hashes


def _is_file_entry(entry: object) -> bool:
    """Return True if an entry of a list describes a file or a folder in a valid form."""
    return isinstance(entry, dict) and isinstance(entry.get("path"), str) and isinstance(entry.get("lfs") or {}, dict)


def _unexpected(address: str, requested: str, answer: Any) -> DataError:
    shown = json.dumps(answer)
    return DataError(
        f"{address}: {requested} answered {shown[:_SHOWN]}{'...' if len(shown) > _SHOWN else ''}, which is not an "
        "answer of the hub: check HF_ENDPOINT, or name the files by their https: addresses"
    )


def _fits(path: str, pattern: str) -> bool:
    """Return True if a path matches a pattern or is in the folder of that name."""
    if re.search(r"[*?\[]", pattern):
        return fnmatchcase(path, pattern)
    return not pattern or path == pattern or f"/{path}".find(f"/{pattern.strip('/')}/") >= 0


def _refuse(address: str, paths: list[str], pattern: str) -> None:
    if not paths:
        meant = f"no Parquet file that fits {pattern}" if pattern else "no Parquet file"
        raise DataError(
            f"{address}: {meant}: the hub converts most datasets, so try the revision refs/convert/parquet, as in "
            f"{address.split('@')[0]}@refs/convert/parquet"
        )
    splits = {match[1] for path in paths if (match := _SPLIT.search(path.rpartition("/")[2]) or _SPLIT.search(path))}
    if len(splits) > 1:
        shown = ", ".join(paths[:_MANY]) + (", ..." if len(paths) > _MANY else "")
        raise DataError(
            f"{address}: holds {' and '.join(sorted(splits))} text together ({shown}): choose one with a pattern such "
            f"as {paths[0].rpartition('/')[0] or '.'}/{min(splits)}*.parquet"
        )
