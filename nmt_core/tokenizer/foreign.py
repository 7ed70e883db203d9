"""Read a vocabulary of another program as a SentencePiece model, if SentencePiece computes exactly the same.

A Hugging Face `tokenizer.json` is a list of steps: a normaliser, a splitter, a model and a decoder. A SentencePiece
model has one fixed order of steps, so only some files can be expressed:

- Unigram models (Kudo 2018) whose words begin with the space mark. These come from SentencePiece, or are like it.
- Byte-pair encoding (Sennrich et al. 2016) with the space mark, if each piece may be joined from all its parts. A
  SentencePiece model has one score for each piece, and no list of the pairs that may be joined.
- WordPiece takes the longest piece first, which no SentencePiece model does.

The pieces keep their order, after the four special ones of this pipeline. Text never becomes a special piece. Text is
expected as the pipeline writes it: without spaces at its ends, and with single spaces in between.
"""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sentencepiece import sentencepiece_model_pb2

from nmt_core.errors import ConfigError, counted
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID, PAD_ID, SPACE_MARK, UNK_ID

_SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
"""Special pieces in the order of their ids."""
_KINDS = sentencepiece_model_pb2.ModelProto.SentencePiece
_COLLAPSE = {"type": "Replace", "pattern": {"Regex": " {2,}"}}
_MARK_SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE_MARK}
_BYTES = 256


class _NotExpressibleError(Exception):
    """A part of a tokenizer that SentencePiece does not have. The message names it."""


@dataclass
class _Text:
    """Steps on the text before the model, as options of SentencePiece."""

    charsmap: bytes = b""
    collapses_spaces: bool = False
    adds_first_space: bool = False
    marks_spaces: bool = False
    splits_words: bool = False


@dataclass(frozen=True)
class _Piece:
    text: str
    score: float
    kind: int = field(default=_KINDS.NORMAL)


def sentencepiece_model(file: Path) -> bytes:
    """Return a SentencePiece model with the special ids of this pipeline, for a file of another program.

    Args:
        file: `tokenizer.json` of Hugging Face, or a SentencePiece model with any special ids.

    Raises:
        ConfigError: the file is neither, or SentencePiece cannot compute what it describes.
    """
    content = file.read_bytes()
    if not content.lstrip().startswith(b"{"):
        try:
            return with_special_ids(content)
        except ValueError:
            raise ConfigError(
                f"tokenizer.start_from={file}: neither a SentencePiece model nor a tokenizer.json: give one of these, "
                "or the folder of a bundle"
            ) from None
    try:
        described = json.loads(content)
        model = described["model"]
        kind = model.get("type") or ("BPE" if "merges" in model else "")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConfigError(
            f"tokenizer.start_from={file}: not the tokenizer.json of Hugging Face, which has a section `model`: give "
            "that file, a SentencePiece model, or the folder of a bundle"
        ) from None
    try:
        return _of_description(described, kind)
    except _NotExpressibleError as error:
        pieces = counted(len(model.get("vocab", ())), "piece")
        raise ConfigError(
            f"tokenizer.start_from={file}: holds a {kind} tokenizer with {pieces}, which no SentencePiece model "
            f"computes exactly: {error}. Learn a vocabulary (remove start_from), or give the SentencePiece model that "
            "the file was made from, if there is one"
        ) from None


def _of_description(described: Mapping[str, Any], kind: str) -> bytes:
    model = described["model"]
    if kind not in ("Unigram", "BPE"):
        how = (
            "takes the longest piece first" if kind == "WordPiece" else "is of a kind that SentencePiece does not have"
        )
        raise _NotExpressibleError(f"{kind or 'its model'} {how}")
    text = _Text()
    for step in _steps(described.get("normalizer"), "normalizers"):
        _normalise(step, text)
    for step in _steps(described.get("pre_tokenizer"), "pretokenizers"):
        _split(step, text)
    if not text.marks_spaces:
        raise _NotExpressibleError(f"it does not mark spaces by {SPACE_MARK}")
    added = {token["content"]: token for token in described.get("added_tokens") or ()}
    if plain := [name for name, token in added.items() if not token.get("special")]:
        raise _NotExpressibleError(f"{plain[0]!r} is an added token, at which it cuts text before it marks spaces")
    pieces = _unigram(model) if kind == "Unigram" else _byte_pairs(model)
    unknown = _unknown(model, kind)
    kept = [
        _Piece(piece.text, piece.score, _KINDS.CONTROL) if piece.text in added else piece
        for piece in pieces
        if piece.text not in (*_SPECIAL, unknown)
    ]
    if text.splits_words and (crossing := next((one.text for one in kept if SPACE_MARK in one.text[1:]), "")):
        raise _NotExpressibleError(f"it cuts text at spaces, and the piece {crossing!r} crosses one")
    return _model(kept, kind, text, byte_fallback=bool(model.get("byte_fallback")))


def _steps(step: Mapping[str, Any] | None, inner: str) -> Iterator[Mapping[str, Any]]:
    """Yield the steps of a sequence, or the step itself."""
    if step is None:
        return
    if step["type"] == "Sequence":
        for part in step[inner]:
            yield from _steps(part, inner)
    else:
        yield step


def _normalise(step: Mapping[str, Any], text: _Text) -> None:
    if step["type"] == "Precompiled":
        if text.charsmap:
            raise _NotExpressibleError("it has two Precompiled normalizers")
        text.charsmap = base64.b64decode(step["precompiled_charsmap"])
    elif (_is_like(step, _COLLAPSE) and step.get("content") in (" ", SPACE_MARK)) or step["type"] == "Strip":
        text.collapses_spaces = True
    elif step["type"] == "Prepend" and step["prepend"] == SPACE_MARK:
        text.adds_first_space = True
    elif _is_like(step, _MARK_SPACES):
        text.marks_spaces = True
    else:
        raise _NotExpressibleError(f"its normalizer {step['type']} is no part of SentencePiece")


def _split(step: Mapping[str, Any], text: _Text) -> None:
    if step["type"] == "Metaspace" and step.get("replacement", SPACE_MARK) == SPACE_MARK:
        scheme = step.get("prepend_scheme") or ("always" if step.get("add_prefix_space", True) else "never")
        text.marks_spaces, text.adds_first_space = True, scheme != "never"
        text.splits_words = bool(step.get("split", True))
    elif step["type"] == "WhitespaceSplit":
        text.collapses_spaces = text.splits_words = True
    else:
        raise _NotExpressibleError(f"its pre-tokenizer {step['type']} is no part of SentencePiece")


def _is_like(step: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(step.get(name) == value for name, value in other.items())


def _unknown(model: Mapping[str, Any], kind: str) -> str:
    """Return the piece for what the vocabulary cannot spell, or an empty string."""
    if kind == "Unigram":
        return "" if model.get("unk_id") is None else str(model["vocab"][model["unk_id"]][0])
    return str(model.get("unk_token") or "")


def _unigram(model: Mapping[str, Any]) -> list[_Piece]:
    has_bytes = bool(model.get("byte_fallback"))
    return [_piece(text, float(score), has_bytes=has_bytes) for text, score in model["vocab"]]


def _piece(text: str, score: float, *, has_bytes: bool) -> _Piece:
    is_byte = has_bytes and len(text) == 6 and text.startswith("<0x") and text.endswith(">")
    return _Piece(text, score, _KINDS.BYTE if is_byte else _KINDS.NORMAL)


def _byte_pairs(model: Mapping[str, Any]) -> list[_Piece]:
    """Return the pieces of byte-pair encoding in the order of their ids, with scores that order the joins.

    Raises:
        _NotExpressibleError: joins depend on more than the joined piece.
    """
    for option in ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges"):
        if model.get(option):
            raise _NotExpressibleError(f"its model has {option}={model[option]}")
    vocab, has_bytes = model["vocab"], bool(model.get("byte_fallback"))
    merges = [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in model["merges"]]
    scores = _scores(merges, set(vocab))
    ordered = sorted(vocab, key=vocab.__getitem__)
    return [_piece(text, scores.get(text, 0.0), has_bytes=has_bytes) for text in ordered]


def _scores(merges: Sequence[tuple[str, ...]], vocab: set[str]) -> dict[str, float]:
    """Return a score for each joined piece, so that the greatest score joins what the first merge joins."""
    ranks = {merge: rank for rank, merge in enumerate(merges)}
    scores = dict[str, float]()
    last = ""
    for one, other in merges:
        joined = one + other
        if joined != last and joined in scores:
            raise _NotExpressibleError(f"{joined!r} is joined from {one!r} and {other!r} later than from other parts")
        scores.setdefault(joined, -float(len(scores)))
        last = joined
    for joined in scores:
        parts = [(joined[:cut], joined[cut:]) for cut in range(1, len(joined))]
        parts = [pair for pair in parts if pair[0] in vocab and pair[1] in vocab]
        if unlisted := [pair for pair in parts if pair not in ranks]:
            first, second = unlisted[0]
            raise _NotExpressibleError(
                f"it does not join {first!r} and {second!r} to {joined!r}, which is a piece: SentencePiece has no list "
                "of pairs"
            )
        for left in parts:  # of two joins that share a part, SentencePiece takes the left one
            for right in parts:
                if left[1] == right[0] and ranks[right] < ranks[left]:
                    raise _NotExpressibleError(
                        f"it joins {right[0]!r} and {right[1]!r} before {left[0]!r} and {left[1]!r}, which stand "
                        "further left"
                    )
    return scores


def _model(pieces: Sequence[_Piece], kind: str, text: _Text, *, byte_fallback: bool) -> bytes:
    model = sentencepiece_model_pb2.ModelProto()
    _add_special(model)
    for piece in pieces:
        model.pieces.add(piece=piece.text, score=piece.score, type=piece.kind)
    if byte_fallback and sum(piece.kind == _KINDS.BYTE for piece in pieces) != _BYTES:
        raise _NotExpressibleError(f"it spells characters as bytes, and has not all {_BYTES} of them")
    trainer = model.trainer_spec
    trainer.model_type = trainer.UNIGRAM if kind == "Unigram" else trainer.BPE
    trainer.vocab_size, trainer.byte_fallback = len(model.pieces), byte_fallback
    spec = model.normalizer_spec
    spec.name, spec.precompiled_charsmap = "user_defined" if text.charsmap else "identity", text.charsmap
    spec.add_dummy_prefix, spec.remove_extra_whitespaces = text.adds_first_space, text.collapses_spaces
    spec.escape_whitespaces = True
    return bytes(model.SerializeToString())


def _add_special(model: Any) -> None:
    """Add the special pieces, and their ids, to an empty model."""
    for name in _SPECIAL:
        model.pieces.add(piece=name, score=0.0, type=_KINDS.UNKNOWN if name == "<unk>" else _KINDS.CONTROL)
    ids = {"pad": PAD_ID, "unk": UNK_ID, "bos": BOS_ID, "eos": EOS_ID}
    for (name, index), piece in zip(ids.items(), _SPECIAL, strict=True):
        setattr(model.trainer_spec, f"{name}_id", index)
        setattr(model.trainer_spec, f"{name}_piece", piece)


def with_special_ids(content: bytes) -> bytes:
    """Return a SentencePiece model whose special pieces come first. Segmentation does not depend on ids.

    Raises:
        ValueError: the content is not a SentencePiece model.
    """
    try:
        old = sentencepiece_model_pb2.ModelProto.FromString(content)
    except Exception:  # a class of protobuf, which has no public name here
        old = sentencepiece_model_pb2.ModelProto()
    if not old.pieces:
        raise ValueError("no pieces")
    new = sentencepiece_model_pb2.ModelProto()
    new.CopyFrom(old)
    del new.pieces[:]
    _add_special(new)
    trainer = old.trainer_spec
    special = {*_SPECIAL, trainer.pad_piece, trainer.bos_piece, trainer.eos_piece}
    for piece in old.pieces:
        if piece.type != _KINDS.UNKNOWN and not (piece.type == _KINDS.CONTROL and piece.piece in special):
            new.pieces.add().CopyFrom(piece)
    new.trainer_spec.vocab_size = len(new.pieces)
    return bytes(new.SerializeToString())
