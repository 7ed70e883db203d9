"""The tokenizer that travels with the model: one SentencePiece file for both languages. Imports no torch."""

from collections.abc import Sequence
from pathlib import Path

import sentencepiece

from nmt_core.errors import ModelError

PAD_ID = 0
UNK_ID = 1
BOS_ID = 2
EOS_ID = 3
SPM_FILE = "spm.model"


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
        ids: list[list[int]] = self._processor.EncodeAsIds(list(lines))
        return ids

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Text of each sequence of ids; special ids leave no trace but <unk>, which shows as U+2047."""
        lines: list[str] = self._processor.DecodeIds([list(map(int, row)) for row in ids])
        return lines

    def piece(self, index: int) -> str:
        """The piece with this id, for people to look at."""
        return str(self._processor.IdToPiece(index))
