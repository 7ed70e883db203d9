"""Reuse a vocabulary instead of learning one: a model that is trained further must read text as it has learnt to."""

from pathlib import Path

from nmt_core.config import PipelineConfig
from nmt_core.errors import StageError
from nmt_core.store.artifacts import Identity
from nmt_core.store.digests import sha256_of
from nmt_core.tokenizer.pretokenize import installed
from nmt_core.tokenizer.tokenizer import files_of, tokenizer_files

_STILL_COUNT = {"user_symbols", "sample_pairs", "seed"}  # the first is checked, the others draw the measured pairs
_COUNT_FOR_ADDED_PIECES = {"added_pieces", "character_coverage"}


def identity(config: PipelineConfig) -> Identity:
    """Return what determines the result of the stage.

    A reused vocabulary counts by its content, together with the options that still matter, and with the languages if it
    is extended. Otherwise the options count.
    If text is pretokenized, so do the versions of the packages, because dictionaries differ, and the languages.

    Raises:
        ConfigError: a package for pretokenization is not installed.
    """
    options = config.tokenizer.model_dump(mode="json") | {"sample_pairs": config.tokenizer.pairs_to_sample}
    if config.tokenizer.start_from:
        folder = Path(config.tokenizer.start_from)
        files = foreign_files(folder) or [folder / name for name in files_of(folder)]
        if all(file.is_file() for file in files):  # otherwise the stage reports the missing file
            taken = {file.name: sha256_of(file) for file in files}
            counting = _STILL_COUNT | (_COUNT_FOR_ADDED_PIECES if config.tokenizer.added_pieces else set())
            options = {name: value for name, value in options.items() if name in counting} | {"start_from": taken}
            if config.tokenizer.added_pieces:
                options |= {"languages": config.languages.model_dump(mode="json")}
    elif versions := installed(config.tokenizer.pretokenize_source) | installed(config.tokenizer.pretokenize_target):
        options |= {"versions": versions, "languages": config.languages.model_dump(mode="json")}
    return {"tokenizer": options, "mix": config.mix.model_dump(mode="json")}


_FOREIGN = (
    ("source.spm", "target.spm"),
    ("tokenizer.json",),
    ("spiece.model",),
    ("sentencepiece.bpe.model",),
    ("tokenizer.model",),
)
"""Names that other programs give to vocabularies. The first that a folder has counts. Two are source and target."""


def foreign_files(place: Path) -> list[Path]:
    """Return the vocabulary of another program: the file itself, or files of a folder. Empty if there is none.

    A folder with a vocabulary of this pipeline has none.
    """
    if place.is_file():
        return [place]
    if (place / tokenizer_files(place)[0]).is_file():
        return []
    found = ([place / name for name in names] for names in _FOREIGN)
    return next((files for files in found if all(file.is_file() for file in files)), [])


def files_to_take(start_from: str) -> list[Path]:
    """Return the SentencePiece files in a folder: one for both languages, or the source's and the target's.

    Raises:
        StageError: a file is missing.
    """
    folder = Path(start_from)
    files = [folder / name for name in tokenizer_files(folder)]
    if missing := [file for file in files if not file.is_file()]:
        raise StageError(
            f"tokenizer.start_from={folder}: {missing[0]} is missing: give the folder of a bundle, an artifact of "
            "the stage tokenizer (`nmt artifacts ls tokenizer` lists them), a SentencePiece model, or a tokenizer.json"
        )
    return files
