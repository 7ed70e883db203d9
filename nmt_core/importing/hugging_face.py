"""Read models in the folders of `transformers`: MarianMTModel, and M2M100ForConditionalGeneration, which NLLB uses too.

Weights and the fields of `config.json` have the names that transformers 5 gives them.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
from pydantic import ValidationError
from safetensors import SafetensorError

from nmt_core.config import SIDES, LanguagesConfig, ModelConfig, SearchConfig
from nmt_core.config.language_codes import canonical
from nmt_core.errors import ConfigError, ModelError
from nmt_core.importing.foreign import Array, ForeignModel, sinusoids
from nmt_core.importing.vocabulary import SpecialRows, Vocabulary, convert, rows_of
from nmt_core.tokenizer.pretokenize import Pretokenizers, SideConfig

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
_INDEX_FILE = "model.safetensors.index.json"
_PICKLE_FILE = "pytorch_model.bin"
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
_ONLY: dict[str, Any] = {
    "is_encoder_decoder": True,
    "static_position_embeddings": True,
    "normalize_embedding": False,
    "normalize_before": False,
    "add_final_layer_norm": False,
}
"""Fields of `config.json` that old files have, with the only value that can be imported. transformers ignores them."""
_FIELDS = {
    "d_ff": "encoder_ffn_dim",
    "num_heads": "encoder_attention_heads",
    "max_positions": "max_position_embeddings",
}
"""Field of `config.json` for each option of `model` that has another name."""
_CODE = re.compile(r">>.+<<")
_LANGUAGE = re.compile(r"__(?P<short>[a-z]{2,3})__|(?P<flores>[a-z]{3}_[A-Z][a-z]{3})")
_M2M_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
"""Special pieces of M2M100 and NLLB, in the order of their rows."""
_OFFSET = 50
"""Default of `search.max_length_offset`, which positions must have room for."""


def read_folder(folder: Path, languages: tuple[str, str]) -> ForeignModel:
    """Read the folder of a model.

    Args:
        folder: folder with `config.json`, `model.safetensors` and the files of the tokenizer.
        languages: source and target language. Empty means those that the files name.

    Raises:
        ConfigError: the model cannot be expressed, or its languages are not known.
        ModelError: a file is missing or damaged.
    """
    described = read_json(folder / CONFIG_FILE)
    kind = described.get("model_type")
    readers = {"marian": _marian, "m2m_100": _m2m}
    if kind not in readers:
        raise ConfigError(
            f"{folder / CONFIG_FILE}: model_type={kind!r} cannot be imported: give a model of the type marian "
            "(OPUS-MT) or m2m_100 (M2M100, NLLB), or a model.npz of Marian"
        )
    for name, value in _ONLY.items():
        if described.get(name, value) != value:
            raise _refused(folder, name, described[name], f"only {json.dumps(value)} can be imported")
    return readers[kind](folder, described, languages)


def read_json(file: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        ModelError: the file is missing, or is not a JSON object.
    """
    try:
        content = json.loads(file.read_bytes())
    except OSError as error:
        raise ModelError(f"{file}: cannot be read ({error.strerror}): copy the whole folder of the model") from None
    except ValueError as error:
        raise ModelError(f"{file}: not JSON ({error}): copy the folder of the model again") from None
    if not isinstance(content, dict):
        raise ModelError(f"{file}: not a JSON object: copy the folder of the model again")
    return content


def _marian(folder: Path, described: Mapping[str, Any], languages: tuple[str, str]) -> ForeignModel:
    tensors = read_tensors(folder)
    tokenizer = read_json(folder / "tokenizer_config.json") if (folder / "tokenizer_config.json").is_file() else {}
    given = languages[0] or tokenizer.get("source_lang") or "", languages[1] or tokenizer.get("target_lang") or ""
    shares = described.get("share_encoder_decoder_embeddings", True)
    row_of, separate = read_json(folder / "vocab.json"), bool(tokenizer.get("separate_vocabs"))
    target_of = read_json(folder / "target_vocab.json") if separate else row_of
    files = [folder / "source.spm", folder / "target.spm"]
    for file in files:
        require_file(file)
    is_joint = bool(shares) and not separate and files[0].read_bytes() == files[1].read_bytes()
    source_VM = _first(tensors, folder, "encoder.embed_tokens.weight", "shared.weight")
    target_VM = _first(tensors, folder, "decoder.embed_tokens.weight", "shared.weight")
    pad = described.get("pad_token_id", 58_100)
    sides = [
        SpecialRows(pad, of_side.get("<unk>", 1), described.get("decoder_start_token_id", pad), end)
        for of_side, end in ((row_of, described.get("eos_token_id", 0)), (target_of, described.get("eos_token_id", 0)))
    ]
    codes = {text: row for text, row in row_of.items() if _CODE.fullmatch(text)}
    target = convert(files[1], target_of, sides[1], rows=len(target_VM), tags=codes if is_joint else None)
    source = target if is_joint else convert(files[0], row_of, sides[0], tags=codes)
    return _model(
        folder,
        described,
        tensors,
        (source, target),
        (source_VM, target_VM),
        languages=languages_of(folder, given),
        norm="post",
        starts=reading(source, target),
        positions=tensors.get("encoder.embed_positions.weight"),
    )


def _m2m(folder: Path, described: Mapping[str, Any], languages: tuple[str, str]) -> ForeignModel:
    tensors, file = read_tensors(folder), folder / "sentencepiece.bpe.model"
    require_file(file)
    embedding_VM = _first(
        tensors, folder, "shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"
    )
    own = folder / "vocab.json"
    if own.is_file():  # M2M100
        row_of = read_json(own)
    else:  # NLLB: the pieces of SentencePiece one place further on, after four special ones
        row_of = {text: row + 1 for text, row in rows_of(file).items() if row >= len(_M2M_SPECIAL) - 1}
    row_of |= {text: row for row, text in enumerate(_M2M_SPECIAL) if text not in row_of}
    controls = _languages_of_tokenizer(folder, row_of)
    pieces = [_language_piece(folder, side, code, controls) for side, code in zip(SIDES, languages, strict=True)]
    rows = (described.get(name, value) for name, value in (("pad_token_id", 1), ("decoder_start_token_id", 2)))
    pad, start = rows
    special = SpecialRows(pad, row_of["<unk>"], start, described.get("eos_token_id", 2))
    vocabulary = convert(file, row_of, special, rows=len(embedding_VM), controls=controls)
    starts = Pretokenizers(source=SideConfig(start=pieces[0]), target=SideConfig(start=pieces[1]))
    return _model(
        folder,
        described,
        tensors,
        (vocabulary, vocabulary),
        (embedding_VM, embedding_VM),
        languages=languages_of(folder, (_code_of(languages[0], controls), _code_of(languages[1], controls))),
        norm="pre",
        starts=starts,
        positions=None,
    )


def _model(
    folder: Path,
    described: Mapping[str, Any],
    tensors: Mapping[str, Array],
    vocabularies: tuple[Vocabulary, Vocabulary],
    embeddings: tuple[Array, Array],
    *,
    languages: LanguagesConfig,
    norm: str,
    starts: Pretokenizers,
    positions: Array | None,
) -> ForeignModel:
    """Return a model from its parts. `positions` are those that the file has, or None if it has none."""
    is_tied = described.get("tie_word_embeddings", True)
    shares = described.get("share_encoder_decoder_embeddings", True) and vocabularies[0] is vocabularies[1]
    tied = ("three_way" if shares else "two_way") if is_tied else "none"
    config = _config(folder, described, norm, tied)
    if positions is None and norm == "post":
        positions = sinusoids(config.max_positions, config.d_model, first=0, steps=config.d_model // 2)
    elif positions is None:
        first = described.get("pad_token_id", 1) + 1
        positions = sinusoids(config.max_positions, config.d_model, first=first, steps=config.d_model // 2 - 1)
    bias = tensors.get("final_logits_bias")
    return ForeignModel(
        folder / WEIGHTS_FILE,
        config,
        tensors,
        *embeddings,
        output_VM=None if is_tied else _first(tensors, folder, "lm_head.weight"),
        bias_V=None if bias is None else bias.reshape(-1),
        positions_LM=positions,
        scales_embeddings=bool(described.get("scale_embedding", norm == "pre")),
        source=vocabularies[0],
        target=vocabularies[1],
        starts=starts,
        languages=languages,
        search=_search(folder, described, config),
    )


def _config(folder: Path, described: Mapping[str, Any], norm: str, tied: str) -> ModelConfig:
    """Return the section `model` for a `config.json`.

    Raises:
        ConfigError: a field has a value that cannot be expressed.
    """
    for field in ("attention_heads", "ffn_dim"):
        names = f"encoder_{field}", f"decoder_{field}"
        values = [described.get(name) for name in names]
        if None in values:
            raise _refused(folder, names[values.index(None)], None, "the field is missing: copy the file again")
        if values[0] != values[1]:
            raise _refused(folder, names[1], values[1], f"{names[0]} is {values[0]}, and both must be the same")
    activation = described.get("activation_function")
    if activation not in _ACTIVATIONS:
        raise _refused(folder, "activation_function", activation, f"one of {', '.join(_ACTIVATIONS)} can be imported")
    try:
        return ModelConfig.model_validate(
            {
                "d_model": described.get("d_model"),
                "d_ff": described["encoder_ffn_dim"],
                "num_heads": described["encoder_attention_heads"],
                "encoder_layers": described.get("encoder_layers"),
                "decoder_layers": described.get("decoder_layers"),
                "activation": _ACTIVATIONS[activation],
                "positions": "learned",
                "max_positions": described.get("max_position_embeddings", 1_024),
                "dropout": described.get("dropout", 0.1),
                "norm": norm,
                "tied_embeddings": tied,
                "attention_bias": True,
                "output_bias": True,
            }
        )
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise _refused(folder, _FIELDS.get(field, field or "d_model"), first["input"], first["msg"]) from None


def search_within(positions: int, **options: Any) -> SearchConfig:
    """Return a search in which no sentence exceeds a model's positions."""
    longest = positions - _OFFSET - 1
    return SearchConfig(max_source_tokens=min(longest, 1_024), max_length_offset=_OFFSET, **options)


def _search(folder: Path, described: Mapping[str, Any], config: ModelConfig) -> SearchConfig:
    """Return the search that the model's own files describe, as far as there is the same option here."""
    file = folder / "generation_config.json"
    given = dict(described) | (read_json(file) if file.is_file() else {})
    beams = given.get("num_beams") or 4
    return search_within(
        config.max_positions, beam_size=beams, length_penalty=max(0.0, given.get("length_penalty") or 1.0)
    )


def reading(source: Vocabulary, target: Vocabulary) -> Pretokenizers:
    """Return what both sides read as the tokenizer of Marian's models reads it."""
    sides = (SideConfig(foreign_characters=one.foreign_characters) for one in (source, target))
    return Pretokenizers(**dict(zip(SIDES, sides, strict=True)))


def read_tensors(folder: Path) -> dict[str, Array]:
    """Read the weights of a folder, in fp32, by their names without `model.`.

    Raises:
        ModelError: there are none, or only a pickle, or a file is damaged.
    """
    files = [folder / WEIGHTS_FILE]
    if (folder / _INDEX_FILE).is_file():
        files = [folder / name for name in sorted(set(read_json(folder / _INDEX_FILE).get("weight_map", {}).values()))]
    if not files[0].is_file() and (folder / _PICKLE_FILE).is_file():
        raise ModelError(
            f"{folder / _PICKLE_FILE}: is a pickle, which can run any program when it is read, and is not read here: "
            f"load the folder with transformers where you trust it, and save it by save_pretrained, which writes "
            f"{WEIGHTS_FILE}"
        )
    tensors: dict[str, Array] = {}
    for file in files:
        require_file(file)
        try:
            loaded = safetensors.torch.load_file(file)
        except (OSError, SafetensorError) as error:
            raise ModelError(f"{file}: cannot be read ({error}): copy the folder of the model again") from None
        tensors |= {name.removeprefix("model."): tensor.float().numpy() for name, tensor in loaded.items()}
    return tensors


def require_file(file: Path) -> None:
    """Raise an error if a file of a model is missing.

    Raises:
        ModelError: it is missing.
    """
    if not file.is_file():
        raise ModelError(f"{file}: missing: copy the whole folder of the model")


def languages_of(place: Path, codes: tuple[str, str]) -> LanguagesConfig:
    """Return the languages of a model.

    Raises:
        ConfigError: a language is not known, or is not a language.
    """
    if not all(codes):
        raise ConfigError(f"{place}: does not name its languages: name them by --languages, as in --languages en-de")
    try:
        source, target = (code if "_" in code else canonical(code) for code in codes)
        return LanguagesConfig(source=source, target=target)
    except ValidationError as error:
        problem = error.errors()[0]
        raise ConfigError(
            f"{place}: {problem['input']!r} is not a language ({problem['msg']}): name both by --languages, as in "
            "--languages en-de"
        ) from None


def _first(tensors: Mapping[str, Array], folder: Path, *names: str) -> Array:
    """Return the first of these weights that the model has."""
    for name in names:
        if name in tensors:
            return tensors[name]
    raise ModelError(f"{folder / WEIGHTS_FILE}: has no weight {names[0]}: copy the folder of the model again")


def _refused(folder: Path, name: str, value: object, reason: str) -> ConfigError:
    return ConfigError(f"{folder / CONFIG_FILE}: {name}={json.dumps(value)} cannot be imported: {reason}")


def _languages_of_tokenizer(folder: Path, row_of: Mapping[str, int]) -> dict[str, int]:
    """Return the rows of the pieces that name languages.

    Raises:
        ModelError: no file of the tokenizer lists them.
    """
    listed = [row for text, row in row_of.items() if text not in _M2M_SPECIAL]
    after = max(listed, default=len(_M2M_SPECIAL) - 1) + 1
    for name in ("tokenizer_config.json", "added_tokens.json", "tokenizer.json", "special_tokens_map.json"):
        if not (folder / name).is_file():
            continue
        content = read_json(folder / name)
        rows = {token["content"]: int(row) for row, token in content.get("added_tokens_decoder", {}).items()}
        rows |= {token["content"]: token["id"] for token in content.get("added_tokens", ())}
        rows |= {text: row for text, row in content.items() if isinstance(row, int)}
        if not any(map(_LANGUAGE.fullmatch, rows)):
            given = content.get("extra_special_tokens") or content.get("additional_special_tokens") or ()
            texts = [token["content"] if isinstance(token, dict) else token for token in given]
            rows = {text: after + place for place, text in enumerate(filter(_LANGUAGE.fullmatch, texts))}
        if found := {text: row for text, row in rows.items() if _LANGUAGE.fullmatch(text)}:
            return found
    raise ModelError(
        f"{folder}: no file lists the pieces of the languages: copy tokenizer_config.json, special_tokens_map.json or "
        "tokenizer.json of the model too"
    )


def _code_of(language: str, pieces: Mapping[str, int]) -> str:
    """Return the code of a language that was given as a code or as a piece."""
    return _code_in(language) if language in pieces else language


def _code_in(piece: str) -> str:
    """Return the language that a piece such as `__de__` or `deu_Latn` names, by its shortest code."""
    match = _LANGUAGE.fullmatch(piece)
    assert match
    if match["short"]:
        return canonical(match["short"])
    language, _, script = match["flores"].partition("_")
    return f"{canonical(language)}_{script}"


def _language_piece(folder: Path, side: str, code: str, pieces: Mapping[str, int]) -> str:
    """Return the piece of a language.

    Raises:
        ConfigError: no language is given, or the model does not know it, or has it in several scripts.
    """
    some = ", ".join(sorted(pieces)[:5])
    if not code:
        raise ConfigError(f"{folder}: is a model for many languages ({some}...): name two by --languages, as in en-de")
    matching = [piece for piece in pieces if code in (piece, piece.strip("_"))]
    matching = matching or [piece for piece in pieces if _code_in(piece) == code]
    matching = matching or [piece for piece in pieces if canonical(_code_in(piece)) == canonical(code)]
    if len(matching) != 1:
        found = f"has it as {', '.join(matching)}" if matching else f"does not know it (but {some}...)"
        raise ConfigError(
            f"--languages: {side} language {code!r}: the model in {folder} {found}: name one of its pieces"
        )
    return matching[0]
