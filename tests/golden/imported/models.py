"""Models of other programs as folders: three shapes with random weights, and one that has learnt to translate.

`make.py` and the tests write the same. Random weights are drawn by numpy from a seed. The end mark is made likely, so
that most translations end.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
from safetensors.numpy import save_file

HERE = Path(__file__).parent
SHAPES = ("marian", "npz", "m2m")
LEARNT = "learnt"
LEARNT_WEIGHTS = HERE / "learnt-weights.npz"
LINES = (HERE / "lines.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")
D_MODEL, D_FF, HEADS, LAYERS, POSITIONS = 32, 64, 4, 2, 256
LANGUAGE_PIECES = {"source": "__en__", "target": "__ko__"}
GAIN, BIAS, TURN, SPREAD, SHARPNESS = 1.0, 0.1, 3.0, 0.5, 3.0
"""Sizes of random numbers: of matrices, biases, embeddings and logits, and what the end mark has in addition.

The feed-forward networks of the decoder turn their input, so that a token is not followed by itself.
"""
SEEDS = {"marian": 11, "npz": 23, "m2m": 22}
GROWTH = {"marian": 2.0, "npz": 3.3, "m2m": 5.0}
END = {"marian": 0.0, "npz": 0.0, "m2m": 6.4}
"""By what the end mark becomes likelier with each position, and what it has in addition. The seeds are those with
which translations differ and end."""
M2M_LANGUAGES = (
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu "
    "hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt "
    "ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
)
"""Languages of M2M100 in the order of their rows."""
Weights = dict[str, Any]


def pieces(file: Path) -> list[str]:
    """Return the pieces of a SentencePiece model."""
    model = sentencepiece.SentencePieceProcessor(model_file=str(file))
    return [model.IdToPiece(index) for index in range(model.GetPieceSize())]


def write(shape: str, folder: Path) -> None:
    """Write the folder of a model."""
    folder.mkdir(parents=True, exist_ok=True)
    {"marian": _marian, "npz": _npz, "m2m": _m2m, LEARNT: _learnt}[shape](folder)


def _layers(random: np.random.Generator, norm: str) -> Weights:
    """Return random weights of the layers, by the names of transformers."""
    weights: Weights = {}

    def affine(name: str, outputs: int, inputs: int) -> None:
        weights[f"{name}.weight"] = random.normal(0, GAIN * inputs**-0.5, (outputs, inputs))
        weights[f"{name}.bias"] = random.normal(0, BIAS, outputs)

    def layer_norm(name: str) -> None:
        weights[f"{name}.weight"] = random.normal(1, 0.2, D_MODEL)
        weights[f"{name}.bias"] = random.normal(0, 0.2, D_MODEL)

    for side in ("encoder", "decoder"):
        for number in range(LAYERS):
            layer = f"model.{side}.layers.{number}"
            for block in ("self_attn", "encoder_attn")[: 1 + (side == "decoder")]:
                for projection in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    affine(f"{layer}.{block}.{projection}", D_MODEL, D_MODEL)
                layer_norm(f"{layer}.{block}_layer_norm")
            affine(f"{layer}.fc1", D_FF, D_MODEL)
            affine(f"{layer}.fc2", D_MODEL, D_FF)
            if side == "decoder":
                turn = TURN * np.linalg.qr(random.normal(0, 1, (D_MODEL, D_MODEL)))[0]
                weights[f"{layer}.fc1.weight"] = np.concatenate([np.eye(D_MODEL), -np.eye(D_MODEL)])
                weights[f"{layer}.fc2.weight"] = np.concatenate([turn, -turn], axis=1)
            layer_norm(f"{layer}.final_layer_norm")
        if norm == "pre":
            layer_norm(f"model.{side}.layer_norm")
    last = "layer_norm" if norm == "pre" else f"layers.{LAYERS - 1}.final_layer_norm"
    weights[f"model.decoder.{last}.weight"] *= SHARPNESS
    return weights


def _config(kind: str, rows: int, **values: object) -> dict[str, object]:
    sizes: dict[str, object] = {f"{side}_layers": LAYERS for side in ("encoder", "decoder")}
    sizes |= {f"{side}_attention_heads": HEADS for side in ("encoder", "decoder")}
    sizes |= {f"{side}_ffn_dim": D_FF for side in ("encoder", "decoder")}
    sizes |= {"d_model": D_MODEL, "vocab_size": rows, "max_position_embeddings": POSITIONS, "scale_embedding": True}
    return {"model_type": kind, "is_encoder_decoder": True, **sizes, **values}


def _save(folder: Path, config: dict[str, object], weights: Weights) -> None:
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    save_file({name: array.astype(np.float32) for name, array in weights.items()}, folder / "model.safetensors")


def _embedding(random: np.random.Generator, rows: int, end: int, weights: Weights, growth: float) -> Any:
    """Return embeddings of one length. Otherwise a few long ones would be most of what a model writes.

    The end mark is where the decoder's feed-forward networks turn a sine of the position that grows for 18 tokens.
    """
    embedding_VM = random.normal(0, 1, (rows, D_MODEL))
    grows_M = np.eye(D_MODEL)[4]
    for number in range(LAYERS):
        turn = weights[f"model.decoder.layers.{number}.fc2.weight"][:, :D_MODEL]
        grows_M = grows_M + turn @ grows_M
    embedding_VM[end] = grows_M
    embedding_VM /= np.linalg.norm(embedding_VM, axis=1, keepdims=True)
    embedding_VM[end] *= growth
    return SPREAD * embedding_VM


def _marian(folder: Path) -> None:
    """Two SentencePiece models over one vocabulary, post-norm, swish, one matrix for all embeddings, a bias."""
    random = np.random.default_rng(SEEDS["marian"])
    names = ["</s>", "<unk>", ">>kor<<"]
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes((HERE / f"{side}.spm").read_bytes())
        # One piece of the source's model is missing in the vocabulary, as in published models.
        names += [piece for piece in pieces(HERE / f"{side}.spm")[3:-1] if piece not in names]
    names.append("<pad>")
    (folder / "vocab.json").write_text(json.dumps({name: row for row, name in enumerate(names)}, ensure_ascii=False))
    (folder / "tokenizer_config.json").write_text('{"source_lang": "eng", "target_lang": "kor"}')
    pad = len(names) - 1
    config = _config("marian", len(names), activation_function="swish", eos_token_id=0, forced_eos_token_id=None)
    config |= {"pad_token_id": pad, "decoder_start_token_id": pad, "decoder_vocab_size": len(names)}
    weights = _layers(random, "post")
    weights["model.shared.weight"] = _embedding(random, len(names), 0, weights, GROWTH["marian"])
    weights["final_logits_bias"] = random.normal(0, 0.5, (1, len(names)))
    weights["final_logits_bias"][0, [0, pad]] = END["marian"], 0
    _save(folder, config, weights)


def marian_sinusoids() -> Any:
    """Positions of Marian itself, which differ from the positions of transformers in the number of steps."""
    half = D_MODEL // 2
    angles = np.arange(POSITIONS)[:, None] * np.exp(np.arange(half) * -np.log(10_000) / (half - 1))
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


def npz_weights() -> Weights:
    """Return the weights of the second shape, by the names of transformers, with zeros as the row of padding."""
    random = np.random.default_rng(SEEDS["npz"])
    weights, rows = _layers(random, "post"), len(pieces(HERE / "vocab.spm"))
    weights["model.shared.weight"] = np.concatenate(
        [_embedding(random, rows, 0, weights, GROWTH["npz"]), np.zeros((1, D_MODEL))]
    )
    bias = random.normal(0, 0.5, (1, rows))
    bias[0, 0] = END["npz"]
    weights["final_logits_bias"] = np.concatenate([bias, np.full((1, 1), -1e4)], axis=1)
    return {name: array.astype(np.float32) for name, array in weights.items()}


def npz_config() -> dict[str, object]:
    """Return `config.json` of the second shape for transformers."""
    rows = len(pieces(HERE / "vocab.spm"))
    config = _config("marian", rows + 1, activation_function="relu", eos_token_id=0, forced_eos_token_id=None)
    return config | {"pad_token_id": rows, "decoder_start_token_id": rows, "decoder_vocab_size": rows + 1}


def _npz(folder: Path) -> None:
    """`model.npz` of Marian with one SentencePiece model, post-norm, ReLU, and the configuration inside."""
    weights = npz_weights()
    arrays = {
        "Wemb": weights.pop("model.shared.weight")[:-1],
        "decoder_ff_logit_out_b": weights.pop("final_logits_bias")[:, :-1],
    }
    names = {"self_attn": "self", "encoder_attn": "context", "fc1": "ffn_W1", "fc2": "ffn_W2"}
    for name, array in weights.items():
        _, side, _, number, *parts, kind = name.split(".")
        layer = f"{side}_l{int(number) + 1}"
        if parts[0].endswith("layer_norm"):
            block = parts[0].removesuffix("_layer_norm")
            place = "ffn_ffn" if block == "final" else f"{names[block]}_Wo"
            arrays[f"{layer}_{place}_ln_{'scale' if kind == 'weight' else 'bias'}"] = array[None]
            continue
        matrix = names[parts[0]] if parts[0] in ("fc1", "fc2") else f"{names[parts[0]]}_W{parts[1][0]}"
        place = matrix if kind == "weight" else matrix.replace("W", "b")
        arrays[f"{layer}_{place}"] = array.T if kind == "weight" else array[None]
    options = {"type": "transformer", "dim-emb": D_MODEL, "enc-depth": LAYERS, "dec-depth": LAYERS}
    options |= {"transformer-heads": HEADS, "transformer-dim-ffn": D_FF, "transformer-ffn-activation": "relu"}
    options |= {"transformer-preprocess": "", "transformer-postprocess": "dan", "transformer-postprocess-emb": "d"}
    options |= {"tied-embeddings-all": True, "skip": False, "version": "v1.12.0"}
    text = "".join(f"{name}: {json.dumps(value)}\n" for name, value in options.items())
    arrays["special:model.yml"] = np.frombuffer(text.encode() + b"\0", np.int8)
    np.savez(folder / "model.npz", **arrays)
    (folder / "vocab.spm").write_bytes((HERE / "vocab.spm").read_bytes())


def _m2m(folder: Path) -> None:
    """Byte-pair encoding with rows after it for languages and for nothing, pre-norm, ReLU, two norms at the end."""
    random = np.random.default_rng(SEEDS["m2m"])
    (folder / "sentencepiece.bpe.model").write_bytes((HERE / "bpe.spm").read_bytes())
    texts = [*("<s>", "<pad>", "</s>", "<unk>"), *pieces(HERE / "bpe.spm")[3:]]
    (folder / "vocab.json").write_text(json.dumps({text: row for row, text in enumerate(texts)}, ensure_ascii=False))
    codes = M2M_LANGUAGES.split()
    listed = json.dumps({"additional_special_tokens": [f"__{code}__" for code in codes]})
    (folder / "special_tokens_map.json").write_text(listed)
    rows = len(texts) + len(codes) + 8
    config = _config("m2m_100", rows, activation_function="relu", pad_token_id=1, bos_token_id=0, eos_token_id=2)
    config |= {"decoder_start_token_id": 2}
    weights = _layers(random, "pre")
    weights["model.shared.weight"] = embedding = _embedding(random, rows, 2, weights, GROWTH["m2m"])
    end = embedding[2] / np.linalg.norm(embedding[2]) ** 2
    weights["model.decoder.layer_norm.bias"] = weights["model.decoder.layer_norm.bias"] + END["m2m"] * end
    embedding[1] = 0
    _save(folder, config, weights)


def learnt_names() -> list[str]:
    """Return the texts of the rows of the learnt model."""
    return ["</s>", "<unk>", *pieces(HERE / "learnt.spm")[3:], "<pad>"]


def learnt_config() -> dict[str, object]:
    """Return `config.json` of the learnt model."""
    pad = len(learnt_names()) - 1
    config = _config("marian", pad + 1, activation_function="swish", eos_token_id=0, forced_eos_token_id=None)
    config |= {"pad_token_id": pad, "decoder_start_token_id": pad, "decoder_vocab_size": pad + 1}
    return config | {"d_model": 64, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128}


def _learnt(folder: Path) -> None:
    """One SentencePiece model for both sides, post-norm, swish, one matrix for all embeddings, no bias of its own."""
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes((HERE / "learnt.spm").read_bytes())
    row_of = {name: row for row, name in enumerate(learnt_names())}
    (folder / "vocab.json").write_text(json.dumps(row_of, ensure_ascii=False))
    (folder / "tokenizer_config.json").write_text('{"source_lang": "eng", "target_lang": "kor"}')
    with np.load(LEARNT_WEIGHTS) as weights:
        _save(folder, learnt_config(), dict(weights))
