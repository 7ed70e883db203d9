"""Read `model.npz` of Marian, whose configuration is inside, with its SentencePiece models.

Weights, options and sinusoids are as in marian-dev 1.12 (`src/models/transformer.h`).
"""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from pydantic import ValidationError

from nmt_core.config import ModelConfig
from nmt_core.errors import ConfigError, ModelError
from nmt_core.importing.foreign import Array, ForeignModel, sinusoids
from nmt_core.importing.hugging_face import languages_of, require_file, search_within
from nmt_core.importing.vocabulary import ZEROS, SpecialRows, Vocabulary, convert, rows_of
from nmt_core.tokenizer.pretokenize import Pretokenizers

_CONFIGURATION = "special:model.yml"
_POSITIONS = 1_024
"""Positions of an imported model. Marian computes its own for any length."""
_EPSILON = 1e-6
_ACTIVATIONS = {"relu": "relu", "swish": "swish"}
_ONLY: dict[str, tuple[Any, ...]] = {
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-postprocess-emb": ("d", ""),
    "transformer-no-projection": (False,),
    "transformer-train-position-embeddings": (False,),
    "transformer-train-positions": (False,),
    "transformer-disable-position-embeddings": (False,),
    "transformer-pool": (False,),
    "transformer-tied-layers": ([],),
    "lemma-dim-emb": (0,),
    "ulr": (False,),
    "output-omit-bias": (False,),
}
"""Options of which only these values can be imported. An option that is missing has the first one."""
_FIELDS = {
    "d_model": "dim-emb",
    "d_ff": "transformer-dim-ffn",
    "num_heads": "transformer-heads",
    "encoder_layers": "enc-depth",
    "decoder_layers": "dec-depth",
    "dropout": "transformer-dropout",
}
"""Option of Marian for each option of `model`."""
_NORMS = {
    ("", "an", ""): "post",
    ("n", "a", "n"): "pre",
}
"""Place of the norm by `transformer-preprocess`, `transformer-postprocess` and `transformer-postprocess-top`, without
dropout."""


def read_npz(place: Path, languages: tuple[str, str]) -> ForeignModel:
    """Read a model of Marian.

    Args:
        place: the file, or its folder. The vocabularies are beside the file: one SentencePiece model, or `source.spm`
            and `target.spm` with one `*vocab.yml`.
        languages: source and target language.

    Raises:
        ConfigError: the model cannot be expressed, or its languages are not known.
        ModelError: a file is missing or damaged.
    """
    file = place if place.is_file() else npz_in(place)
    arrays = _arrays(file)
    options = _options(file, arrays)
    config = _config(file, options, arrays)
    vocabularies = _vocabularies(file, arrays)
    source_VM, target_VM = _embedding(file, arrays, "encoder_Wemb"), _embedding(file, arrays, "decoder_Wemb")
    bias_V = arrays.get("decoder_ff_logit_out_b")
    return ForeignModel(
        file,
        config,
        _named(arrays, config),
        source_VM,
        target_VM,
        output_VM=_output(arrays),
        bias_V=None if bias_V is None else bias_V.reshape(-1),
        positions_LM=sinusoids(_POSITIONS, config.d_model, first=0, steps=config.d_model // 2 - 1),
        scales_embeddings=True,
        source=vocabularies[0],
        target=vocabularies[1],
        starts=Pretokenizers(),
        languages=languages_of(file, languages),
        search=search_within(_POSITIONS, beam_size=6, allow_unknown=False),
    )


def npz_in(folder: Path) -> Path:
    """Return the model in a folder.

    Raises:
        ModelError: there is none, or there are several.
    """
    found = [file for file in sorted(folder.glob("*.npz")) if not file.name.endswith(".optimizer.npz")]
    if len(found) != 1:
        some = f"has {', '.join(file.name for file in found)}" if found else "has no .npz"
        raise ModelError(f"{folder}: {some}: name the file of the model")
    return found[0]


def _arrays(file: Path) -> dict[str, Array]:
    try:
        with np.load(file, allow_pickle=False) as opened:
            return {name: opened[name] for name in opened.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ModelError(f"{file}: not a model of Marian ({error}): copy it again") from None


def _options(file: Path, arrays: dict[str, Array]) -> dict[str, Any]:
    """Return the configuration in the file, and require that the other arrays are weights."""
    if _CONFIGURATION not in arrays:
        raise ModelError(f"{file}: has no {_CONFIGURATION}: give the model.npz that Marian's training wrote")
    text = arrays.pop(_CONFIGURATION).astype(np.uint8).tobytes().rstrip(b"\0").decode("utf-8", "replace")
    try:
        options = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ModelError(f"{file}: {_CONFIGURATION} is not YAML ({error}): copy the model again") from None
    for name in [name for name in arrays if name.startswith("special:")]:
        del arrays[name]
    for name, array in arrays.items():
        if array.dtype not in (np.float32, np.float16):
            raise ConfigError(
                f"{file}: {name} is stored as {array.dtype}: give the model before it was converted for Marian's "
                "translation, in float32"
            )
        arrays[name] = array.astype(np.float32)
    return dict(options or {})


def _config(file: Path, options: Mapping[str, Any], arrays: Mapping[str, Array]) -> ModelConfig:
    """Return the section `model`.

    Raises:
        ConfigError: an option has a value that cannot be expressed.
    """
    for name, values in _ONLY.items():
        if options.get(name, values[0]) not in values:
            raise _refused(file, name, options[name], f"only {' or '.join(map(repr, values))} can be imported")
    steps = [f"transformer-{name}" for name in ("preprocess", "postprocess", "postprocess-top")]
    given = tuple(str(options.get(name, "")).replace("d", "") for name in steps)
    if given not in _NORMS:
        shown = ", ".join(f"{name}={options.get(name, '')!r}" for name in steps)
        raise ConfigError(f"{file}: {shown} cannot be imported: norms are after each residual sum (dan), or before")
    activation = options.get("transformer-ffn-activation", "swish")
    if activation not in _ACTIVATIONS:
        raise _refused(file, "transformer-ffn-activation", activation, "relu and swish can be imported")
    d_ff = options.get("transformer-dim-ffn")
    if options.get("transformer-decoder-dim-ffn") not in (None, 0, d_ff):
        name = "transformer-decoder-dim-ffn"
        raise _refused(file, name, options[name], f"transformer-dim-ffn is {d_ff}, and both must be the same")
    is_joint, is_tied = "Wemb" in arrays, _output(arrays) is None
    section = {
        "d_model": options.get("dim-emb"),
        "d_ff": d_ff,
        "num_heads": options.get("transformer-heads"),
        "encoder_layers": options.get("enc-depth"),
        "decoder_layers": options.get("dec-depth"),
        "activation": _ACTIVATIONS[activation],
        "positions": "learned",
        "max_positions": _POSITIONS,
        "dropout": options.get("transformer-dropout", 0.1),
        "norm": _NORMS[given],
        "layer_norm_eps": _EPSILON,
        "tied_embeddings": ("three_way" if is_joint and _has_one_spm(file) else "two_way") if is_tied else "none",
        "attention_bias": True,
        "output_bias": True,
    }
    try:
        return ModelConfig.model_validate(section)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise _refused(file, _FIELDS.get(field, field or "dim-emb"), first["input"], first["msg"]) from None


def _refused(file: Path, name: str, value: object, reason: str) -> ConfigError:
    return ConfigError(f"{file}: {name}={value!r} of {_CONFIGURATION} cannot be imported: {reason}")


def _has_one_spm(file: Path) -> bool:
    return len(list(file.parent.glob("*.spm"))) == 1


def _vocabularies(file: Path, arrays: Mapping[str, Array]) -> tuple[Vocabulary, Vocabulary]:
    """Return the vocabularies of both sides, which are one object if there is one SentencePiece model."""
    folder, rows = file.parent, len(_embedding(file, arrays, "decoder_Wemb"))
    if _has_one_spm(file):
        [spm] = folder.glob("*.spm")
        row_of = rows_of(spm)
        one = convert(spm, row_of, _special(spm, row_of), rows=rows)
        return one, one
    files, listed = [folder / "source.spm", folder / "target.spm"], sorted(folder.glob("*vocab.yml"))
    for side in files:
        require_file(side)
    if len(listed) != 1:
        raise ModelError(
            f"{folder}: has {len(listed)} files *vocab.yml beside source.spm and target.spm: copy the one with which "
            "the model was trained there"
        )
    row_of = {str(text): int(row) for text, row in yaml.safe_load(listed[0].read_text(encoding="utf-8")).items()}
    special = _special(listed[0], row_of)
    codes = {text: row for text, row in row_of.items() if text.startswith(">>") and text.endswith("<<")}
    return convert(files[0], row_of, special, tags=codes), convert(files[1], row_of, special, rows=rows)


def _special(file: Path, row_of: Mapping[str, int]) -> SpecialRows:
    """Return the rows of the special pieces. Marian's decoder begins with zeros in place of an embedding."""
    missing = [text for text in ("<unk>", "</s>") if text not in row_of]
    if missing:
        raise ModelError(f"{file}: has no piece {missing[0]}: copy the vocabulary of the model again")
    return SpecialRows(ZEROS, row_of["<unk>"], ZEROS, row_of["</s>"])


def _embedding(file: Path, arrays: Mapping[str, Array], name: str) -> Array:
    if "Wemb" not in arrays and name not in arrays:
        raise ModelError(f"{file}: has neither Wemb nor {name}: copy the model again")
    return arrays[name] if name in arrays else arrays["Wemb"]


def _output(arrays: Mapping[str, Array]) -> Array | None:
    """Return the output matrix [V, M], or None if it is the matrix of the target embeddings."""
    if "decoder_ff_logit_out_W" in arrays:
        return arrays["decoder_ff_logit_out_W"].T
    return arrays.get("decoder_ff_logit_out_Wt")


def _named(arrays: Mapping[str, Array], config: ModelConfig) -> dict[str, Array]:
    """Return the weights of the layers by the names of `ForeignModel.tensors`, each matrix as [out, in]."""
    suffix = "_pre" if config.norm == "pre" else ""
    named: dict[str, Array] = {}
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for number in range(layers):
            ours, theirs = f"{side}.layers.{number}", f"{side}_l{number + 1}"
            blocks = {"self_attn": "self"} | ({"encoder_attn": "context"} if side == "decoder" else {})
            pairs: dict[str, tuple[str, str]] = {}
            for block, name in blocks.items():
                for letter, projection in zip("qkvo", ("q_proj", "k_proj", "v_proj", "out_proj"), strict=True):
                    pairs[f"{block}.{projection}"] = f"{name}_W{letter}", f"{name}_b{letter}"
                pairs[f"{block}_layer_norm"] = f"{name}_Wo_ln_scale{suffix}", f"{name}_Wo_ln_bias{suffix}"
            pairs |= {"fc1": ("ffn_W1", "ffn_b1"), "fc2": ("ffn_W2", "ffn_b2")}
            pairs["final_layer_norm"] = f"ffn_ffn_ln_scale{suffix}", f"ffn_ffn_ln_bias{suffix}"
            for name, (weight, bias) in pairs.items():
                _take(named, arrays, f"{ours}.{name}", f"{theirs}_{weight}", f"{theirs}_{bias}")
        if config.norm == "pre":
            _take(named, arrays, f"{side}.layer_norm", f"{side}_top_ln_scale", f"{side}_top_ln_bias")
    return named


def _take(named: dict[str, Array], arrays: Mapping[str, Array], name: str, weight: str, bias: str) -> None:
    """Copy a weight and its bias to another name. A missing one is reported by its new name."""
    if weight in arrays:
        is_norm = "_ln_" in weight
        named[f"{name}.weight"] = arrays[weight].reshape(-1) if is_norm else np.ascontiguousarray(arrays[weight].T)
    if bias in arrays:
        named[f"{name}.bias"] = arrays[bias].reshape(-1)
