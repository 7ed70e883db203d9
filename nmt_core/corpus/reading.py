"""The text of a download artifact: training corpora row by row, dev and test sets whole."""

from collections.abc import Iterator

import polars as pl

from nmt_core import formats
from nmt_core.config import LanguagesConfig
from nmt_core.corpus.index import CorpusIndex, Role, StoredCorpus
from nmt_core.errors import DataError
from nmt_core.store.artifacts import Artifact


def rows(
    download: Artifact, corpus: StoredCorpus, languages: LanguagesConfig, max_line_bytes: int
) -> Iterator[pl.DataFrame]:
    """The rows of one corpus, some at a time: columns source, target, line, fault, value; see `formats.read`.

    Raises:
        DataError: a file is damaged, or is not what it should be; rows may have come before.
    """
    files = [formats.TextFile(download.path / file.file, file.side, file.member) for file in corpus.files]
    layout = formats.Layout(
        languages.source, languages.target, corpus.source_column, corpus.target_column, max_line_bytes
    )
    try:
        yield from formats.read(files, layout)
    except DataError as error:  # it names our copies; the user knows the corpus by its address
        addresses = ", ".join(dict.fromkeys(file.address for file in corpus.files))
        raise DataError(f"corpus {corpus.name} ({addresses}): {error}") from None


def held_out_sets(download: Artifact, role: Role, languages: LanguagesConfig) -> dict[str, pl.DataFrame]:
    """The pairs (columns source, target) of each dev or test set, by name, in the order of the recipe, unaltered.

    Raises:
        DataError: a set cannot be read, or a row of it; a score on a part of a set would be another score.
    """
    found = {}
    for corpus in CorpusIndex.of(download).corpora:
        if corpus.role == role:
            pairs = pl.concat(rows(download, corpus, languages, max_line_bytes=1 << 24))
            faulty = pairs.filter(pl.col("fault").is_not_null())
            if faulty.height:
                row = faulty.row(0, named=True)
                raise DataError(
                    f"{role} set {corpus.name}, line {row['line']:,}: {row['fault'].replace('_', ' ')}: mend the line; "
                    "a dev or test set is used whole or not at all"
                )
            found[corpus.name] = pairs.select("source", "target")
    return found
