"""Files of weights: where the stages put them, and what each says of itself. Imports no torch."""

from pathlib import Path

import safetensors
from pydantic import BaseModel, ConfigDict, ValidationError

from nmt_core.config import ModelConfig
from nmt_core.errors import StageError
from nmt_core.store.digests import sha256_of
from nmt_core.tokenizer.tokenizer import tokenizer_files

WEIGHTS = "weights"
"""Folder of the weights in an artifact of `train`: one file for each checkpoint, named by its update."""
CHECKPOINTS = "checkpoints"
"""Folder of the checkpoints there."""
MODEL_FILE = "model.safetensors"
"""The weights in an artifact of `average`."""

_KEY = "nmt"  # one for all: safetensors writes several in any order, and the same weights must give the same file


class Label(BaseModel):
    """What a file of weights says of itself, for nobody can see from it which piece an id stands for."""

    model_config = ConfigDict(frozen=True)
    source_vocabulary: str
    """sha256 of the SentencePiece model of the source language."""
    target_vocabulary: str
    """sha256 of that of the target language: the same file, if the vocabulary is joint."""
    model: ModelConfig

    @classmethod
    def of(cls, model: ModelConfig, tokenizer: Path) -> "Label":
        """That of a model with the vocabulary in this folder."""
        hashes = [sha256_of(tokenizer / name) for name in tokenizer_files(tokenizer)]
        return cls(source_vocabulary=hashes[0], target_vocabulary=hashes[-1], model=model)

    @classmethod
    def read(cls, file: Path) -> "Label":
        """That of a file.

        Raises:
            StageError: it is no file of weights, or not one of this pipeline.
        """
        try:
            with safetensors.safe_open(file, "np") as reader:
                metadata = reader.metadata() or {}
            return cls.model_validate_json(metadata.get(_KEY, ""))
        except (OSError, safetensors.SafetensorError) as error:
            raise StageError(f"{file}: cannot be read as weights ({error}): fetch or make it again") from None
        except ValidationError:
            raise StageError(
                f"{file}: does not say which vocabulary and which model its weights are of: take what the stages train "
                "and average of this version have written"
            ) from None

    def metadata(self) -> dict[str, str]:
        """As safetensors takes it."""
        return {_KEY: self.model_dump_json()}
