"""Convert a vocabulary of another program: a SentencePiece model with the ids of this pipeline, and the rows it means.

Segmentation does not depend on ids, so the pieces of a text stay the same, and only their numbers change. A model's
matrices are put into the new order of the rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sentencepiece import sentencepiece_model_pb2

from nmt_core.errors import ConfigError, ModelError
from nmt_core.tokenizer.foreign import with_special_ids
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID, SPACE_MARK

ZEROS = -1
"""Row of a piece that the other model does not have. Its embedding is zeros, and no translation contains it."""
_KINDS = sentencepiece_model_pb2.ModelProto.SentencePiece
_FIRST_PIECE = EOS_ID + 1


class SpecialRows(NamedTuple):
    """Rows of the special pieces in the other model, in the order of their ids here."""

    pad: int
    unk: int
    start: int
    """Row of the token that a decoder reads first."""
    end: int


@dataclass(frozen=True)
class Vocabulary:
    """Vocabulary of one side, or of both."""

    model: bytes
    """SentencePiece model with the special ids of this pipeline."""
    rows: tuple[int, ...]
    """Row of each piece in the other model's matrices, or `ZEROS`."""
    foreign_characters: str = ""
    """Characters that the SentencePiece model does not know, and the vocabulary does."""

    @property
    def is_spare(self) -> list[bool]:
        """True for each piece that no translation may contain, because another piece has its row, or none has."""
        seen, spare = {ZEROS}, []
        for index, row in enumerate(self.rows):
            # The start token is usually another piece as well, which keeps the row.
            spare.append(row in seen or index == BOS_ID)
            seen |= {row} if index != BOS_ID else set()
        return spare


def convert(
    file: Path,
    row_of: Mapping[str, int],
    special: SpecialRows,
    *,
    rows: int = 0,
    tags: Mapping[str, int] | None = None,
    controls: Mapping[str, int] | None = None,
) -> Vocabulary:
    """Return a vocabulary for a SentencePiece model of another program.

    Pieces of the SentencePiece model come first. What the model has besides them follows: text that another
    SentencePiece model writes is never read, unless it is a character that this one does not know at all.

    Args:
        file: SentencePiece model.
        row_of: row of each piece. A piece without a row means the unknown piece.
        special: rows of the special pieces.
        rows: number of rows that the vocabulary must cover, because a translation may contain any. 0 means that only
            those that this side reads are needed.
        tags: rows of symbols that are read as one piece at the beginning of a word, such as `>>fra<<`.
        controls: rows of pieces that text never becomes and that a text does not show, such as languages.

    Raises:
        ConfigError: the file is not a SentencePiece model, or its kind cannot express the vocabulary.
    """
    try:
        model = sentencepiece_model_pb2.ModelProto.FromString(with_special_ids(file.read_bytes()))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file}: not a SentencePiece model ({error}): copy the model's folder again") from None
    model.DiscardUnknownFields()  # tests of itself, which name ids of the other program
    texts = [piece.piece for piece in model.pieces]
    found = list(special) + [row_of.get(text, special.unk) for text in texts[_FIRST_PIECE:]]
    added = _Added(model, found, set(texts))
    for text, row in (tags or {}).items():
        added.add(SPACE_MARK + text, row, _KINDS.USER_DEFINED)
    for text, row in (controls or {}).items():
        added.add(text, row, _KINDS.CONTROL)
    known = {character for text in texts[_FIRST_PIECE:] for character in text}
    covered, foreign = set(found), ""
    for text, row in row_of.items():
        if row in covered:
            continue
        if len(text) == 1 and text not in known:
            added.add(text, row, _KINDS.USER_DEFINED)
            foreign += text
        elif rows:
            added.add(text, row, _KINDS.UNUSED)
        covered.add(row)
    if model.trainer_spec.model_type == model.trainer_spec.BPE:
        _require_no_joins(model, file)
    for row in sorted(set(range(rows)) - set(found)):
        added.add(f"<unused-{row}>", row, _KINDS.CONTROL)
    model.trainer_spec.vocab_size = len(model.pieces)
    return Vocabulary(bytes(model.SerializeToString()), tuple(found), foreign)


def _require_no_joins(model: "sentencepiece_model_pb2.ModelProto", file: Path) -> None:
    """Raise an error if byte-pair encoding would join pieces to one that it does not write.

    Raises:
        ConfigError: there is such a piece, through which other pieces would be joined.
    """
    texts = {piece.piece for piece in model.pieces}
    for piece in model.pieces:
        text = piece.piece
        cuts = range(1, len(text)) if piece.type == _KINDS.UNUSED else ()
        if any(text[:cut] in texts and text[cut:] in texts for cut in cuts):
            raise ConfigError(
                f"{file}: is byte-pair encoding, and does not have the piece {text!r} of the vocabulary, through which "
                "other pieces would be joined: only unigram models can be imported with such a vocabulary"
            )


class _Added:
    """Pieces that are added to a SentencePiece model, with their rows."""

    def __init__(self, model: "sentencepiece_model_pb2.ModelProto", rows: list[int], texts: set[str]) -> None:
        self._model = model
        self._rows = rows
        self._texts = texts

    def add(self, text: str, row: int, kind: int) -> None:
        """Add a piece. Text that is a piece already gets a name of its own, by which text does not become it."""
        is_new = text not in self._texts
        text, kind = (text, kind) if is_new else (f"<unused-{row}>", _KINDS.CONTROL)
        self._model.pieces.add(piece=text, score=0.0, type=kind)
        self._texts.add(text)
        self._rows.append(row)


def rows_of(file: Path) -> dict[str, int]:
    """Return the ids that a SentencePiece model itself gives to its pieces.

    Raises:
        ModelError: the file is not a SentencePiece model.
    """
    try:
        model = sentencepiece_model_pb2.ModelProto.FromString(file.read_bytes())
    except Exception as error:  # a class of protobuf, which has no public name here
        raise ModelError(f"{file}: not a SentencePiece model ({error}): copy the model's folder again") from None
    return {piece.piece: number for number, piece in enumerate(model.pieces)}
