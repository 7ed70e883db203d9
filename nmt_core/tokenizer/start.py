"""A vocabulary that is taken over in place of being learnt: what is trained further must read as it has learnt to."""

from pathlib import Path

from nmt_core.config import PipelineConfig
from nmt_core.errors import StageError
from nmt_core.store.artifacts import Identity
from nmt_core.store.digests import sha256_of
from nmt_core.tokenizer.pretokenize import installed
from nmt_core.tokenizer.tokenizer import files_of, tokenizer_files

_STILL_COUNT = {"user_symbols", "sample_pairs", "seed"}  # the first is checked, the others draw what is measured


def identity(config: PipelineConfig) -> Identity:
    """What decides the result: a vocabulary that is taken over by its content, and with what is asked of it.

    What cuts the text before counts with its version, for dictionaries differ, and with the languages.

    Raises:
        ConfigError: what cuts the text before is not installed.
    """
    knobs = config.tokenizer.model_dump(mode="json") | {"sample_pairs": config.tokenizer.pairs_to_sample}
    if config.tokenizer.start_from:
        folder = Path(config.tokenizer.start_from)
        files = [folder / name for name in files_of(folder)]
        if all(file.is_file() for file in files):  # where they are not, the stage says so
            taken = {file.name: sha256_of(file) for file in files}
            knobs = {name: value for name, value in knobs.items() if name in _STILL_COUNT} | {"start_from": taken}
    elif versions := installed(config.tokenizer.pretokenize_source) | installed(config.tokenizer.pretokenize_target):
        knobs |= {"versions": versions, "languages": config.languages.model_dump(mode="json")}
    return {"tokenizer": knobs, "mix": config.mix.model_dump(mode="json")}


def files_to_take(start_from: str) -> list[Path]:
    """The SentencePiece files in a folder: one for both languages, or the source's and the target's.

    Raises:
        StageError: they are not there.
    """
    folder = Path(start_from)
    files = [folder / name for name in tokenizer_files(folder)]
    if missing := [file for file in files if not file.is_file()]:
        raise StageError(
            f"tokenizer.start_from={folder}: {missing[0]} is not there: give the folder of a bundle, or what tokenizer "
            "has made, such as `nmt artifacts ls tokenizer` lists"
        )
    return files
