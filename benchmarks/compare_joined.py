"""Join sentences of a corpus to longer ones, for experiments about length."""

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_MOST_JOINED = 5
_PARTS = ("train", "dev", "test")
_SIDES = {"source": "en", "target": "de"}


def corpus_of(folder: Path) -> dict[str, Any]:
    """Return the section `corpus` of a recipe that reads what `write_joined` has written."""
    corpus: dict[str, Any] = {"licence": "for research only"}
    for part in _PARTS:
        corpus[part] = [{"name": part} | {side: str(folder / f"{part}.{code}") for side, code in _SIDES.items()}]
    return corpus


def write_joined(folder: Path, out: Path) -> None:
    """Write each part of a corpus with one, two, ... up to five neighbours joined.

    Every sentence occurs once with each number of neighbours, so that short sentences are as frequent as in the corpus.

    Args:
        folder: text as PART.LANGUAGE.gz, with the parts train, dev and test, in English and German. A file may have
            more in its name, as in test_2016_flickr.en.gz.
        out: folder to write.
    """
    out.mkdir(parents=True, exist_ok=True)
    for part in _PARTS:
        for code in _SIDES.values():
            [found] = folder.glob(f"{part}*.{code}.gz")
            lines = gzip.decompress(found.read_bytes()).decode().splitlines()
            text = "".join(f"{line}\n" for line in joined(lines))
            (out / f"{part}.{code}").write_text(text, encoding="utf-8")


def joined(lines: Sequence[str]) -> list[str]:
    """Return all lines, then pairs of neighbours as one line each, and so forth. A rest that is short is left out."""
    return [
        " ".join(lines[start : start + count])
        for count in range(1, _MOST_JOINED + 1)
        for start in range(0, len(lines) - count + 1, count)
    ]
