"""Read the text of a download artifact: training corpora as a stream of rows, dev and test sets as whole tables."""

from collections.abc import Callable, Iterator, Sequence

import polars as pl

from nmt_core import formats
from nmt_core.config import LanguagesConfig
from nmt_core.corpus.fetching.addresses import name_in
from nmt_core.corpus.index import MONOLINGUAL, CorpusIndex, Role, StoredCorpus
from nmt_core.errors import DataError
from nmt_core.formats.rows import DOCUMENT_END
from nmt_core.store.artifacts import Artifact

SWAPPED = {"source": "target", "target": "source"}
"""New name of each side where a pair is read in the other direction."""


def rows(
    download: Artifact,
    corpus: StoredCorpus,
    languages: LanguagesConfig,
    max_line_bytes: int,
    note: Callable[[str], None] = lambda _: None,
) -> Iterator[pl.DataFrame]:
    """Yield the rows of one corpus in tables with the columns source, target, line, fault and value.

    See `formats.read`. Monolingual text has its sentences on its side, and nothing on the other one. If the corpus
    tells documents apart, there is another column `document`. `note` gets what a user should know about how the files
    were read, such as the columns that were taken.

    Raises:
        DataError: a file is damaged or of the wrong kind. Some rows may have been yielded before.
    """
    languages = corpus.languages_in(languages)
    files = [formats.TextFile(download.path / file.file, file.side, file.member) for file in corpus.files]
    layout = formats.Layout(
        source_language=languages.tag("source"),
        target_language=languages.tag("target"),
        source_column=corpus.source_column,
        target_column=corpus.target_column,
        max_line_bytes=max_line_bytes,
        encoding=corpus.encoding,
        documents=corpus.documents,
        note=note,
    )
    try:
        if corpus.role == MONOLINGUAL:
            named = [(file, name_in(stored.address)) for file, stored in zip(files, corpus.files, strict=True)]
            column = corpus.source_column if corpus.side == "source" else corpus.target_column
            yield from formats.read_side(named, layout, column)
        else:
            yield from formats.read(files, layout)
    except DataError as error:  # it names copies in the artifact, but users know a corpus by its address
        addresses = ", ".join(dict.fromkeys(file.address for file in corpus.files))
        raise DataError(f"corpus {corpus.name} ({addresses}): {error}") from None


def in_each_direction(pairs: pl.DataFrame, directions: Sequence[str]) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the rows of a corpus in each of its pairs of languages, with the pair.

    Args:
        pairs: rows in the direction of the files (columns source, target and others).
        directions: pairs of languages, the direction of the files first and then its reverse, if it has one.
    """
    for number, pair in enumerate(directions):
        yield pair, pairs.rename(SWAPPED).select(pairs.columns) if number else pairs


def held_out_sets(download: Artifact, role: Role, languages: LanguagesConfig) -> dict[str, pl.DataFrame]:
    """Return the unaltered pairs (columns source, target) of each dev or test set, by name, in recipe order.

    Raises:
        DataError: a set, or a row of it, cannot be read. A score on part of a set would be another score.
    """
    sets = {}
    for corpus in CorpusIndex.of(download).corpora:
        if corpus.role == role:
            pairs = pl.concat(rows(download, corpus, languages, max_line_bytes=1 << 24))
            pairs = pairs.filter(pl.col("fault").ne_missing(DOCUMENT_END))
            faulty = pairs.filter(pl.col("fault").is_not_null())
            if faulty.height:
                row = faulty.row(0, named=True)
                raise DataError(
                    f"{role} set {corpus.name}, line {row['line']:,}: {row['fault'].replace('_', ' ')}: repair the "
                    "line, because a dev or test set is used whole or not at all"
                )
            sets[corpus.name] = pairs.select("source", "target")
    return sets
