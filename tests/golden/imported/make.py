"""Make the golden files of this folder with Hugging Face's `transformers`, which the tests do without.

    pip install transformers==5.24.0 && python tests/golden/imported/make.py

`*.spm` are vocabularies and `lines.txt` is text, both made by this package. Of more lines, those were kept whose
translations by beam search end within 120 tokens: the two searches end others in different ways. The `.npz` of
each shape has the ids into which transformers cuts each line, and the ids of its greedy search and of its beam search
with 5 beams.
"""

import io
import sys
import tempfile
from pathlib import Path

import numpy as np
import sentencepiece
import torch
import transformers

HERE = Path(__file__).parent
MOST_TOKENS = 120
ODD = ["zq x 42", "한국어 text", "집 house", "☃☃ snow", "a", "the the the", "Ünïcode ß", "...", "x☃y 책", "é è"]


def main() -> None:
    _write_text_and_vocabularies()
    sys.path.insert(0, str(HERE))
    import models  # needs the files above

    for shape in sys.argv[1:] or models.SHAPES:
        with tempfile.TemporaryDirectory() as place:
            models.write(shape, Path(place))
            model, sources, options = _loaded(models, shape, Path(place))
        found = {"sources": sources, "greedy": _generated(model, sources, options)}
        beams = {"num_beams": 5, "early_stopping": True, "length_penalty": 0.0}
        found["beam"] = _generated(model, sources, options | beams)
        arrays = {}
        for name, rows in found.items():
            print(
                shape, name, f"{np.mean([len(row) for row in rows]):.1f} tokens, {len(set(map(tuple, rows)))} different"
            )
            arrays[name] = np.array([index for row in rows for index in row], dtype=np.uint16)
            arrays[f"{name}_lengths"] = np.array([len(row) for row in rows], dtype=np.uint8)
        np.savez_compressed(HERE / f"{shape}.npz", **arrays)


def _write_text_and_vocabularies() -> None:
    """Write what needs this package and SentencePiece only, unless it is there: SentencePiece may learn otherwise."""
    if (HERE / "lines.txt").is_file():
        return
    from nmt_core.corpus.toy import generate

    train = [pair for pair in generate(pairs=2_000, seed=1, held_out=20).train if max(map(len, pair)) < 200]
    held_out = [pair[0] for pair in generate(pairs=1_000, seed=9, held_out=250).train if len(pair[0]) < 60]
    lines = [*held_out[:440], *(f">>kor<< {line}" for line in held_out[440:490]), *ODD]
    english, korean = zip(*train, strict=True)
    kinds = {
        "source": (english, "unigram", {}),
        "target": (korean, "unigram", {}),
        "vocab": ((*english, *korean), "unigram", {"unk_id": 1, "eos_id": 0, "bos_id": -1}),
        "bpe": ((*english, *korean), "bpe", {}),
    }
    for name, (text, kind, ids) in kinds.items():
        file = io.BytesIO()
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=iter(text),
            model_writer=file,
            model_type=kind,
            vocab_size=260 if name == "source" else 700,
            character_coverage=0.998,
            hard_vocab_limit=False,
            normalization_rule_name="identity",
            minloglevel=2,
            **ids,
        )
        (HERE / f"{name}.spm").write_bytes(file.getvalue())
    (HERE / "lines.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _loaded(models, shape, folder):  # type: ignore[no-untyped-def]
    """Return the model, the ids of the lines with their end marks, and options of generate."""
    options = {"do_sample": False, "max_new_tokens": MOST_TOKENS}
    if shape == "marian":
        model = transformers.MarianMTModel.from_pretrained(folder)
        tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
        return model, tokenizer(models.LINES)["input_ids"], options | {"bad_words_ids": [[model.config.pad_token_id]]}
    if shape == "npz":
        config = transformers.MarianConfig(**models.npz_config())
        model = transformers.MarianMTModel(config).eval()
        weights = {name: torch.from_numpy(array) for name, array in models.npz_weights().items()}
        missing, unexpected = model.load_state_dict(weights, strict=False)
        assert not unexpected, unexpected
        assert all("embed" in name or "lm_head" in name for name in missing), missing
        model.tie_weights()
        for side in (model.model.encoder, model.model.decoder):
            side.embed_positions.weight.data[:] = torch.from_numpy(models.marian_sinusoids())
        for module in model.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.eps = 1e-6  # as Marian
        spm = sentencepiece.SentencePieceProcessor(model_file=str(HERE / "vocab.spm"))
        return model, [[*ids, spm.eos_id()] for ids in spm.EncodeAsIds(models.LINES)], options
    model = transformers.M2M100ForConditionalGeneration.from_pretrained(folder)
    tokenizer = transformers.M2M100Tokenizer.from_pretrained(folder, src_lang="en", tgt_lang="ko")
    forced = tokenizer.get_lang_id("ko")
    sources = tokenizer(models.LINES)["input_ids"]
    return model, sources, options | {"forced_bos_token_id": forced, "suppress_tokens": [1]}


def _generated(model, sources, options):  # type: ignore[no-untyped-def]
    """Return the generated ids of each source, without the first token and the end mark."""
    pad, end = model.config.pad_token_id, model.config.eos_token_id
    rows = []
    for first in range(0, len(sources), 250):
        some = [torch.tensor(ids) for ids in sources[first : first + 250]]
        batch = torch.nn.utils.rnn.pad_sequence(some, batch_first=True, padding_value=pad)
        given = {"input_ids": batch, "attention_mask": (batch != pad).long()}
        for row in model.eval().generate(**given, **options).tolist():
            written = row[1:]
            assert end in written or options.get("num_beams", 1) == 1, "a translation has not ended"
            rows.append(written[: written.index(end)] if end in written else written)
    return rows


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
