"""Tokenizers that are shipped with a model: one or two SentencePiece models, and the pretokenization of their text.

Imports no torch.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import sentencepiece

from nmt_core.errors import ModelError
from nmt_core.tokenizer.pretokenize import BOUNDARY, PRETOKENIZERS_FILE, Pretokenizer, Pretokenizers

PAD_ID = 0
UNK_ID = 1
BOS_ID = 2
EOS_ID = 3
SPM_FILE = "spm.model"
SOURCE_SPM_FILE = "spm.source.model"
TARGET_SPM_FILE = "spm.target.model"
SPACE_MARK = "\u2581"
"""Character for a space inside a piece of SentencePiece."""
WRITTEN_MARK = "\U0010fffd"
"""Private-use character in place of a `SPACE_MARK` that the text itself holds, so that decoding restores it."""
_FEWEST_CHARACTERS = 10
"""Fewest pieces of one character, without a space mark, of a vocabulary that spells words."""


class Tokenizer:
    """Converter of text to ids and back. It adds neither <s> nor </s>.

    Args:
        model_file: SentencePiece model.
        pretokenizer: pretokenizer that is applied before encoding and undone after decoding. None means none.
        start: piece that a search puts before each text (`SideConfig.start`). Empty means none.
        foreign: characters that are unknown in runs (`SideConfig.foreign_characters`).

    Raises:
        ModelError: the file is missing, is not a SentencePiece model, has other special ids, or lacks the piece.
    """

    def __init__(
        self, model_file: Path, pretokenizer: Pretokenizer | None = None, start: str = "", foreign: str = ""
    ) -> None:
        self.file = model_file
        self.pretokenizer = pretokenizer
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
                "use a tokenizer that this pipeline made"
            )
        self.start_ids = [int(processor.PieceToId(start))] if start else []
        """Id of the piece that a search puts before each text, in a list. Empty if there is none."""
        if UNK_ID in self.start_ids:
            raise ModelError(
                f"{model_file}: has no piece {start!r}, with which {PRETOKENIZERS_FILE} starts each text: fetch or "
                "export the bundle again"
            )
        self._spells_characters: bool | None = None
        unknown = [UNK_ID] if foreign else []
        self._foreign = {*unknown, *(int(processor.PieceToId(character)) for character in foreign)}
        self._boundary = int(processor.PieceToId(BOUNDARY))  # UNK_ID if there is no such piece

    @property
    def vocab_size(self) -> int:
        """Number of pieces, the four special ones included."""
        return int(self._processor.GetPieceSize())

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the ids of each line, without <s> and </s>."""
        return self.encode_pretokenized(self.pretokenize(lines))

    def pretokenize(self, lines: Sequence[str]) -> list[str]:
        """Return the lines as SentencePiece reads them."""
        if self.pretokenizer:
            lines = [self.pretokenizer.split(line) if line else "" for line in lines]
        return [line.replace(SPACE_MARK, WRITTEN_MARK) for line in lines]

    def encode_pretokenized(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the ids of lines that `pretokenize` returned."""
        # One thread: a caller that needs more uses processes or threads of its own.
        ids: list[list[int]] = self._processor.EncodeAsIds(list(lines), num_threads=1)
        if self._foreign:
            ids = [self._fused(row) for row in ids]
        if self._boundary == UNK_ID:
            return ids
        return [[index for index in row if index != self._boundary] for row in ids]

    def _fused(self, ids: list[int]) -> list[int]:
        """Return ids with one <unk> for each run of several foreign or unknown characters."""
        fused: list[int] = []
        for is_foreign, run in itertools.groupby(ids, self._foreign.__contains__):
            own = list(run)
            fused += [UNK_ID] if is_foreign and len(own) > 1 else own
        return fused

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of each sequence of ids. Special ids are omitted, except <unk>, which becomes U+2047."""
        lines: list[str] = self._processor.DecodeIds([list(map(int, row)) for row in ids])
        # The bytes of an unknown word spell its space mark too.
        lines = [line.replace(SPACE_MARK, " ").lstrip(" ") if SPACE_MARK in line else line for line in lines]
        lines = list(map(self.pretokenizer.join, lines)) if self.pretokenizer else lines
        return [line.replace(WRITTEN_MARK, SPACE_MARK) for line in lines]

    def has_unknown(self, lines: Sequence[str]) -> list[bool]:
        """Return True for each line that contains something that is <unk> in this vocabulary."""
        return [UNK_ID in ids for ids in self.encode(lines)]

    @property
    def spells_characters(self) -> bool:
        """True if words are spelled with smaller pieces, down to characters, but not down to bytes.

        What is <unk> is then a character. It is a word in a vocabulary of words, and nothing in one with bytes.
        """
        if self._spells_characters is None:
            pieces = [self.piece(index) for index in range(EOS_ID + 1, self.vocab_size)]
            single = sum(len(piece) == 1 and piece != SPACE_MARK for piece in pieces)
            self._spells_characters = single >= _FEWEST_CHARACTERS and "<0x00>" not in pieces
        return self._spells_characters

    def piece(self, index: int) -> str:
        """Return the piece with this id, for display."""
        return str(self._processor.IdToPiece(index))

    def id_of(self, piece: str) -> int:
        """Return the id of a piece, also of one that no text can spell.

        Raises:
            ModelError: there is no such piece.
        """
        index = int(self._processor.PieceToId(piece))
        if index == UNK_ID:
            raise ModelError(
                f"{self.file}: has no piece {piece!r}: use a vocabulary that was learned with the same languages.pairs"
            )
        return index

    def is_control(self, index: int) -> bool:
        """Return True if no text can spell the piece with this id."""
        return bool(self._processor.IsControl(index))

    def is_byte(self, index: int) -> bool:
        """Return True if the piece with this id encodes one byte of a character that has no piece."""
        return bool(self._processor.IsByte(index))

    def serialised(self) -> bytes:
        """Return the SentencePiece model as a protocol buffer."""
        model: bytes = self._processor.serialized_model_proto()
        return model


@dataclass(frozen=True)
class Tokenizers:
    """Tokenizers of both languages. They are one object if the vocabulary and the pretokenization are shared."""

    source: Tokenizer
    target: Tokenizer

    @classmethod
    def load(cls, folder: Path, files: Sequence[str] = ()) -> "Tokenizers":
        """Load the tokenizers that the stage `tokenizer` wrote, or the tokenizers of a bundle.

        Args:
            folder: folder of the files.
            files: names of the SentencePiece files, as `tokenizer_files` returns them. Empty means the files that the
                folder has.

        Raises:
            ModelError: a file is missing, damaged, or has other special ids.
        """
        files, cut = files or tokenizer_files(folder), Pretokenizers.read(folder)
        source = Tokenizer(folder / files[0], cut.source.make(), cut.source.start, cut.source.foreign_characters)
        if len(files) == 1 and cut.source == cut.target:
            return cls(source, source)
        return cls(
            source, Tokenizer(folder / files[-1], cut.target.make(), cut.target.start, cut.target.foreign_characters)
        )

    @property
    def source_vocab_size(self) -> int | None:
        """Number of pieces of the source's own vocabulary. None means that the vocabulary is joint."""
        return None if self.source.file == self.target.file else self.source.vocab_size


def tokenizer_files(folder: Path) -> tuple[str, ...]:
    """Return the names of the SentencePiece files: one for both languages, or the source's and the target's."""
    separate = (folder / SOURCE_SPM_FILE).exists()
    return (SOURCE_SPM_FILE, TARGET_SPM_FILE) if separate else (SPM_FILE,)


def files_of(folder: Path) -> tuple[str, ...]:
    """Return the names of all files of the tokenizers: SentencePiece files, and `pretokenizers.json` if it exists."""
    cut = (PRETOKENIZERS_FILE,) if (folder / PRETOKENIZERS_FILE).exists() else ()
    return tokenizer_files(folder) + cut
