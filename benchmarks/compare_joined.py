"""Join sentences of a corpus to longer ones, for experiments about length."""

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_MOST_JOINED = 5
_PARTS = ("train", "dev", "test")


def joined_text(folder: Path, out: Path, languages: Sequence[str]) -> dict[str, Any]:
    """Write each part of a corpus with one, two, ... up to five neighbours joined, and return the section `corpus`.

    Every sentence occurs once with each number of neighbours, so that short sentences are as frequent as in the corpus.

    Args:
        folder: text as PART.LANGUAGE.gz, with the parts train, dev and test. Files of a part may have more in their
            name, as in test_2016_flickr.en.gz.
        out: folder to write.
        languages: source and target language.
    """
    out.mkdir(parents=True, exist_ok=True)
    corpus: dict[str, Any] = {"licence": "for research only"}
    for part in _PARTS:
        files = {}
        for side, language in zip(("source", "target"), languages, strict=True):
            [found] = folder.glob(f"{part}*.{language}.gz")
            lines = gzip.decompress(found.read_bytes()).decode().splitlines()
            files[side] = str(out / f"{part}.{language}")
            Path(files[side]).write_text("".join(f"{line}\n" for line in _joined(lines)), encoding="utf-8")
        corpus[part] = [{"name": part} | files]
    return corpus


def _joined(lines: Sequence[str]) -> list[str]:
    return [
        " ".join(lines[start : start + count])
        for count in range(1, _MOST_JOINED + 1)
        for start in range(0, len(lines) - count + 1, count)
    ]
