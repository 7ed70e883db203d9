"""Name the files of weights of the stages, and read and write their labels. This module does not import torch."""

from pathlib import Path

import safetensors
from pydantic import BaseModel, ConfigDict, ValidationError

from nmt_core.config import ModelConfig
from nmt_core.errors import StageError
from nmt_core.store.digests import sha256_of
from nmt_core.tokenizer.tokenizer import tokenizer_files

WEIGHTS = "weights"
"""Name of the folder of the weights in an artifact of `train`. Each file is named by the update of its checkpoint."""
CHECKPOINTS = "checkpoints"
"""Name of the folder of the checkpoints in an artifact of `train`."""
MODEL_FILE = "model.safetensors"
"""Name of the file of the weights in an artifact of `average`."""

MEMBERS = "members"
"""Name of the folder of an ensemble's members in an artifact of `average`, each named by its update."""

_KEY = "nmt"  # only one key: safetensors writes several in any order, and equal weights must give equal files


class Label(BaseModel):
    """Label of a file of weights. Without it, the file does not show which piece an id means."""

    model_config = ConfigDict(frozen=True)
    source_vocabulary: str
    """sha256 of the SentencePiece model of the source language."""
    target_vocabulary: str
    """sha256 of the SentencePiece model of the target language. A joint vocabulary has one model for both languages."""
    model: ModelConfig
    """Section `model` of the recipe."""

    @classmethod
    def of(cls, model: ModelConfig, tokenizer: Path) -> "Label":
        """Return the label of a model with the vocabulary in this folder."""
        hashes = [sha256_of(tokenizer / name) for name in tokenizer_files(tokenizer)]
        return cls(source_vocabulary=hashes[0], target_vocabulary=hashes[-1], model=model)

    @classmethod
    def read(cls, file: Path) -> "Label":
        """Read the label of a file.

        Raises:
            StageError: the file is not a file of weights, or has no label of this pipeline.
        """
        try:
            with safetensors.safe_open(file, "np") as reader:
                metadata = reader.metadata() or {}
            return cls.model_validate_json(metadata.get(_KEY, ""))
        except (OSError, safetensors.SafetensorError) as error:
            raise StageError(f"{file}: cannot be read as weights ({error}): copy or make it again") from None
        except ValidationError:
            raise StageError(
                f"{file}: has no label of its vocabulary and model: use a file that the stages train or average of "
                "this version have written"
            ) from None

    def metadata(self) -> dict[str, str]:
        """Return the label as metadata of safetensors."""
        return {_KEY: self.model_dump_json()}
