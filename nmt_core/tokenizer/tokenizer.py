"""The tokenizers that travel with the model: one SentencePiece file for both languages, or two. Imports no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import sentencepiece

from nmt_core.errors import ModelError

PAD_ID = 0
UNK_ID = 1
BOS_ID = 2
EOS_ID = 3
SPM_FILE = "spm.model"
SOURCE_SPM_FILE = "spm.source.model"
TARGET_SPM_FILE = "spm.target.model"
SPACE_MARK = "\u2581"
"""How SentencePiece writes a space inside a piece."""


class Tokenizer:
    """Text to ids and back. <s> and </s> are the caller's business: `encode` adds neither.

    Raises:
        ModelError: the file is missing, is not a SentencePiece model, or has other special ids.
    """

    def __init__(self, model_file: Path) -> None:
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.Load(str(model_file))
        except (OSError, RuntimeError) as error:
            raise ModelError(f"{model_file}: not a SentencePiece model ({error}): fetch or export it again") from None
        processor = self._processor
        special = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
        if special != (PAD_ID, UNK_ID, BOS_ID, EOS_ID):
            raise ModelError(
                f"{model_file}: <pad>, <unk>, <s>, </s> have ids {special}, not {(PAD_ID, UNK_ID, BOS_ID, EOS_ID)}: "
                "take the tokenizer that this pipeline made"
            )

    @property
    def vocab_size(self) -> int:
        """Pieces, the four special ones included."""
        return int(self._processor.GetPieceSize())

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of each line."""
        # One thread: whoever needs more has processes or threads of its own.
        ids: list[list[int]] = self._processor.EncodeAsIds(list(lines), num_threads=1)
        return ids

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Text of each sequence of ids; special ids leave no trace but <unk>, which shows as U+2047."""
        lines: list[str] = self._processor.DecodeIds([list(map(int, row)) for row in ids])
        return lines

    def piece(self, index: int) -> str:
        """The piece with this id, for people to look at."""
        return str(self._processor.IdToPiece(index))

    def is_byte(self, index: int) -> bool:
        """Whether the piece with this id spells one byte of a character that has no piece."""
        return bool(self._processor.IsByte(index))

    def serialised(self) -> bytes:
        """The SentencePiece model as a protocol buffer."""
        model: bytes = self._processor.serialized_model_proto()
        return model


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of both languages: one and the same if the vocabulary is joint."""

    source: Tokenizer
    target: Tokenizer

    @classmethod
    def load(cls, folder: Path) -> "Tokenizers":
        """Load what the stage `tokenizer` wrote, or what a bundle holds.

        Raises:
            ModelError: as of `Tokenizer`.
        """
        loaded = [Tokenizer(folder / name) for name in tokenizer_files(folder)]
        return cls(loaded[0], loaded[-1])

    @property
    def source_vocab_size(self) -> int | None:
        """Pieces of the source's own vocabulary; None if the vocabulary is joint."""
        return None if self.source is self.target else self.source.vocab_size


def tokenizer_files(folder: Path) -> tuple[str, ...]:
    """Names of the SentencePiece files: one for both languages, or the source's and the target's."""
    separate = (folder / SOURCE_SPM_FILE).exists()
    return (SOURCE_SPM_FILE, TARGET_SPM_FILE) if separate else (SPM_FILE,)
