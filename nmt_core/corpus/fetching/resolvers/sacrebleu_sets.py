"""Resolve sacrebleu:wmt14/en-de: the address, md5, members and citation of a test set that sacreBLEU knows.

A set can be read in either direction: en-de also serves as the test set of de-en if sacreBLEU has no other.
"""

import difflib
import glob
from pathlib import PurePosixPath
from typing import Any

from nmt_core.config import SIDES
from nmt_core.corpus.fetching.addresses import RequestedFile, Resolution
from nmt_core.corpus.fetching.resolvers.question import Question
from nmt_core.errors import DataError
from nmt_core.formats import FileSide

_ARCHIVES = (".tgz", ".tar.gz", ".zip", ".tar")


def resolve(question: Question) -> Resolution:
    """Return both sides from sacreBLEU's own table. This needs no network.

    Raises:
        DataError: there is no such test set or pair, or its format is not supported.
    """
    dataset, pair = _find(question)
    entry = dataset.langpairs[pair]
    paths = [entry["path"]] if isinstance(entry, dict) else list(entry)
    first = pair.split("-")[0].split("_")[0]
    sides: tuple[FileSide, ...] = SIDES if first == question.languages.source else ("target", "source")
    citation = (dataset.citation or "").strip()
    if len(paths) == 1:  # one XML file with source and references
        files = [_wanted(dataset, paths[0], "both", question)]
        return Resolution(tuple(files), citation=citation, url=dataset.data[0])
    columns = {}
    if ".tsv" in paths[0]:
        for side, path, default in zip(sides, paths, (0, 1), strict=False):
            number, _, path = path.rpartition(":")
            columns[f"{side}_column"] = str(int(number or default) + 1)  # the table counts from 0
        files = [_wanted(dataset, path, "both", question)]
    else:
        files = [_wanted(dataset, path, side, question) for side, path in zip(sides, paths[:2], strict=True)]
        files.sort(key=lambda file: SIDES.index(file.side))
    return Resolution(tuple(files), citation=citation, url=dataset.data[0], **columns)


def _find(question: Question) -> tuple[Any, str]:
    """Return the test set and its pair of languages."""
    from sacrebleu.dataset import DATASETS

    source, target = question.languages.source, question.languages.target
    name, pair = question.rest, ""
    if name not in DATASETS:
        name, _, pair = question.rest.rpartition("/")
    if name not in DATASETS:
        close = difflib.get_close_matches(name or question.rest, DATASETS, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise DataError(f"{question.address}: sacreBLEU knows no such test set: {hint}`sacrebleu --list` lists them")
    dataset = DATASETS[name]
    candidates = [pair] if pair else []
    candidates += [f"{source}-{target}", f"{target}-{source}"]
    if pair and sorted(pair.split("-")) != sorted((source, target)):
        raise DataError(f"{question.address}: the recipe is from {source} to {target}: name the set of these languages")
    langpair = next((candidate for candidate in candidates if candidate in dataset.langpairs), "")
    if not langpair:
        raise DataError(
            f"{question.address}: {name} is not in {source} and {target}, but in {', '.join(dataset.langpairs)}: name "
            "another test set"
        )
    return dataset, langpair


def _wanted(dataset: Any, path: str, side: FileSide, question: Question) -> RequestedFile:
    """Return the file that holds a path of sacreBLEU's table: the path itself, or an archive that contains it."""
    md5s = dataset.md5 or [""] * len(dataset.data)
    archives = []
    for address, md5 in zip(dataset.data, md5s, strict=True):
        name = PurePosixPath(address).name
        if path == f"{dataset.name.replace('/', '_')}.{name}":
            return RequestedFile(address, side, md5=md5)
        if name.endswith(_ARCHIVES):
            archives.append((name, address, md5))
    folder = PurePosixPath(path).parts[0]
    fitting = [archive for archive in archives if archive[0].split(".")[0] == folder] or archives
    if len(fitting) != 1:
        raise DataError(
            f"{question.address}: several archives, and it is unknown which of them holds {path}: get it with "
            "`sacrebleu`, and name the files"
        )
    _, address, md5 = fitting[0]
    return RequestedFile(address, side, member=glob.escape(path), md5=md5)
