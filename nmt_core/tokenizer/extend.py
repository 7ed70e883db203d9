"""Extend a vocabulary by pieces of new languages, so that a trained model can learn them.

The pieces of the vocabulary keep their ids, and new ones follow: first the characters that it lacks, then the pieces
that a model of the same kind learns from the text of the new language alone. Their scores are below the scores of all
older pieces. So byte-pair encoding (Sennrich et al. 2016) makes all older merges first, and a unigram model (Kudo 2018)
prefers a new piece only to a cut that is less probable than any older piece. Garcia et al. (2021, "Towards continual
learning for multilingual machine translation via vocabulary substitution") replace the vocabulary instead, which moves
the pieces of the older languages too.
"""

import hashlib
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import sentencepiece
from pydantic import BaseModel, ConfigDict, TypeAdapter
from sentencepiece import sentencepiece_model_pb2

from nmt_core.tokenizer.tokenizer import EOS_ID, UNK_ID, Tokenizer
from nmt_core.tokenizer.trainer_options import TRAINER_OPTIONS

EXTENSIONS_FILE = "extensions.json"
"""File of the stage `tokenizer` with the `Extension` of each vocabulary, by the name of its SentencePiece file."""

_KINDS = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}  # sentencepiece_model.proto, TrainerSpec.ModelType


class Extension(BaseModel):
    """Relation of an extended vocabulary to the one that it extends."""

    model_config = ConfigDict(frozen=True)
    sha256: str
    """sha256 of the SentencePiece model that is extended."""
    size: int
    """Number of its pieces. The new ones have the ids from here on."""
    cuts: tuple[tuple[int, ...], ...]
    """Ids of the older pieces into which the older vocabulary cuts each new piece, without <unk>. For a token of a
    language, the ids of the older tokens of languages. Empty if there are none."""


_EXTENSIONS = TypeAdapter(dict[str, Extension])


def write_extensions(folder: Path, extensions: dict[str, Extension]) -> None:
    """Write the extensions of the vocabularies in a folder, by the names of their files."""
    (folder / EXTENSIONS_FILE).write_bytes(_EXTENSIONS.dump_json(extensions))


def read_extensions(folder: Path) -> dict[str, Extension]:
    """Return the extensions of the vocabularies in a folder by the names of their files. Empty if none is extended."""
    file = folder / EXTENSIONS_FILE
    return _EXTENSIONS.validate_json(file.read_bytes()) if file.is_file() else {}


def extended(
    serialised: bytes,
    tokens: Sequence[str],
    texts: Sequence[tuple[int, Callable[[], Iterable[str]]]],
    coverage: float,
) -> tuple[bytes, Extension]:
    """Return a vocabulary with further pieces, and its relation to the one that it extends.

    Args:
        serialised: SentencePiece model to extend.
        tokens: tokens of languages that it lacks. No text can spell them.
        texts: for each new language, the maximum number of its pieces, and a function that yields its pretokenized
            lines.
        coverage: share of the characters of a text that get a piece.
    """
    model = sentencepiece_model_pb2.ModelProto.FromString(serialised)
    size = len(model.pieces)
    older_tokens = tuple(
        index for index, piece in enumerate(model.pieces) if piece.type == piece.CONTROL and _is_language(piece.piece)
    )
    for token in tokens:
        model.pieces.add(piece=token, score=0.0, type=sentencepiece_model_pb2.ModelProto.SentencePiece.CONTROL)
        model.trainer_spec.control_symbols.append(token)
    for limit, lines in texts:
        _append(model, _new_pieces(model, limit, lines, coverage))
    model.trainer_spec.vocab_size = len(model.pieces)
    cuts = [older_tokens] * len(tokens)
    cuts += _cuts(serialised, [piece.piece for piece in model.pieces[size + len(tokens) :]])
    digest = hashlib.sha256(serialised).hexdigest()
    return bytes(model.SerializeToString()), Extension(sha256=digest, size=size, cuts=tuple(cuts))


def share_cut_as_before(tokenizer: Tokenizer, size: int, lines: Sequence[str]) -> float:
    """Return the share of lines that an extended vocabulary cuts into the same pieces as its first `size` pieces do."""
    model = sentencepiece_model_pb2.ModelProto.FromString(tokenizer.serialised())
    read = tokenizer.pretokenize(lines)
    after = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString()).EncodeAsIds(read, num_threads=1)
    del model.pieces[size:]
    before = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString()).EncodeAsIds(
        read, num_threads=1
    )
    return round(sum(map(list.__eq__, before, after)) / max(1, len(lines)), 6)


def _is_language(piece: str) -> bool:
    return piece.startswith("<2") and piece.endswith(">")


def _new_pieces(
    model: sentencepiece_model_pb2.ModelProto, limit: int, lines: Callable[[], Iterable[str]], coverage: float
) -> list[tuple[str, float]]:
    """Return at most this many pieces that a text needs and a model lacks, with scores, the characters first."""
    if not limit or not any(True for _ in lines()):
        return []
    known = {piece.piece for piece in model.pieces}
    kind = _KINDS[model.trainer_spec.model_type]
    # The merges of byte-pair encoding are learned in an order that does not depend on their number, so that enough of
    # them are new. A unigram model has its own best pieces for each number.
    size = limit + (len(known) if kind == "bpe" else len(set().union(*lines())) + EOS_ID + 1)
    learned = _learned(model, kind, size, lines(), coverage)
    new = [(piece.piece, piece.score) for piece in learned.pieces if piece.type == piece.NORMAL]
    new = [(piece, score) for piece, score in new if piece not in known]
    return sorted(new, key=lambda one: kind != "word" and len(one[0]) > 1)[:limit]


def _learned(
    model: sentencepiece_model_pb2.ModelProto, kind: str, size: int, lines: Iterable[str], coverage: float
) -> sentencepiece_model_pb2.ModelProto:
    """Return a SentencePiece model of this text, with the options of another one."""
    output, spec = io.BytesIO(), model.trainer_spec
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(lines),
        model_writer=output,
        model_type=kind,
        vocab_size=size,
        hard_vocab_limit=False,  # a small text has fewer pieces
        character_coverage=coverage,
        split_digits=spec.split_digits,
        user_defined_symbols=[
            piece.piece for piece in model.pieces if piece.type == piece.USER_DEFINED and kind != "word"
        ],
        **TRAINER_OPTIONS,
    )
    return sentencepiece_model_pb2.ModelProto.FromString(output.getvalue())


def _append(model: sentencepiece_model_pb2.ModelProto, pieces: Sequence[tuple[str, float]]) -> None:
    """Append pieces with scores below all others. Byte-pair encoding keeps their order, other kinds their distances."""
    lowest = min((piece.score for piece in model.pieces if piece.type == piece.NORMAL), default=0.0)
    highest = max((score for _, score in pieces), default=0.0)
    is_ordered = _KINDS[model.trainer_spec.model_type] == "bpe"
    for number, (piece, score) in enumerate(pieces, start=1):
        model.pieces.add(piece=piece, score=lowest - (number if is_ordered else highest - score))


def _cuts(serialised: bytes, pieces: Sequence[str]) -> Iterator[tuple[int, ...]]:
    """Yield the ids of the pieces into which a vocabulary cuts each of these pieces, without <unk>."""
    model = sentencepiece_model_pb2.ModelProto.FromString(serialised)
    model.normalizer_spec.add_dummy_prefix = False  # a piece spells its space mark itself
    cutter = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
    for ids in cutter.EncodeAsIds(list(pieces), num_threads=1):
        yield tuple(index for index in ids if index != UNK_ID)
