"""Make the golden files of this folder with Hugging Face's `transformers`, which the tests do without.

    pip install transformers==5.24.0 sentencepiece nmt-pipeline && python tests/golden/imported/make.py [SHAPE...]

`lines.txt` has 500 lines: sentences of the toy corpus, some of them with the piece of a language, pieces of the
vocabularies in random order, and a few odd ones. They are drawn by a seed, whatever a model makes of them.
`references.txt` has the translations of the first of them. `*.spm` are vocabularies. `learnt-weights.npz` is a model of
transformers' own classes after training for about 200 CPU-seconds. The `.npz` of each shape has the ids into which
transformers cuts each line, and the ids of its greedy search and of its beam search with 5 beams.

What is there is kept, because SentencePiece and PyTorch may learn otherwise: remove a file to make it again.
"""

import io
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import sentencepiece
import torch
import transformers

HERE = Path(__file__).parent
MOST_TOKENS = 120
ODD = ["zq x 42", "한국어 text", "집 house", "☃☃ snow", "a", "the the the", "Ünïcode ß", "...", "x☃y 책", "é è"]
SENTENCES, WITH_LANGUAGE, OF_RANDOM_PIECES = 340, 50, 100
FREQUENT_WORDS, LONGEST = 300, 45
"""Number of words of the learnt model's language, and greatest number of characters of its sentences."""
UPDATES, BATCH, LEARNING_RATE, WARM_UP, DROPOUT, SMOOTHING = 2_200, 64, 3e-3, 200, 0.05, 0.1


def main() -> None:
    train, held_out = _small_language()
    _write_vocabularies(train)
    _write_lines(held_out)
    sys.path.insert(0, str(HERE))
    import models  # needs the files above

    shapes = sys.argv[1:] or (*models.SHAPES, models.LEARNT)
    if models.LEARNT in shapes and not models.LEARNT_WEIGHTS.is_file():
        _train(models, train)
    for shape in shapes:
        with tempfile.TemporaryDirectory() as place:
            models.write(shape, Path(place))
            model, sources, options = _loaded(models, shape, Path(place))
        found = {"sources": sources, "greedy": _generated(model, sources, options)}
        beams = {"num_beams": 5, "early_stopping": True, "length_penalty": 0.0}
        found["beam"] = _generated(model, sources, options | beams)
        arrays = {}
        for name, rows in found.items():
            lengths = [len(row) for row in rows]
            unended = sum(length == MOST_TOKENS for length in lengths)
            print(
                shape, name, f"{np.mean(lengths):.1f} tokens, {unended} not ended, {len(set(map(tuple, rows)))} differ"
            )
            arrays[name] = np.array([index for row in rows for index in row], dtype=np.uint16)
            arrays[f"{name}_lengths"] = np.array(lengths, dtype=np.uint8)
        np.savez_compressed(HERE / f"{shape}.npz", **arrays)


def _small_language():  # type: ignore[no-untyped-def]
    """Return pairs of the toy corpus with frequent words, to train with and held out."""
    from nmt_core.corpus.toy import generate, words_of

    corpus = generate(pairs=40_000, seed=1, held_out=20_000)
    clean = corpus.dev + corpus.test  # the training rows have dirt
    counts = Counter(word for english, _ in clean for word in words_of(english))
    frequent = {word for word, _ in counts.most_common(FREQUENT_WORDS)}
    kept = [pair for pair in clean if len(pair[0]) < LONGEST and frequent.issuperset(words_of(pair[0]))]
    return kept[:-600], kept[-600:]


def _write_vocabularies(learnt) -> None:  # type: ignore[no-untyped-def]
    from nmt_core.corpus.toy import generate

    train = [pair for pair in generate(pairs=2_000, seed=1, held_out=20).train if max(map(len, pair)) < 200]
    english, korean = zip(*train, strict=True)
    kinds = {
        "source": (english, 260, {}),
        "target": (korean, 700, {}),
        "vocab": ((*english, *korean), 700, {"unk_id": 1, "eos_id": 0, "bos_id": -1}),
        "bpe": ((*english, *korean), 700, {"model_type": "bpe"}),
        "learnt": ([text for pair in learnt for text in pair], 400, {"character_coverage": 1.0}),
    }
    for name, (text, size, options) in kinds.items():
        if (HERE / f"{name}.spm").is_file():
            continue
        common = {"model_type": "unigram", "character_coverage": 0.998, "hard_vocab_limit": False}
        file = io.BytesIO()
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=iter(text),
            model_writer=file,
            vocab_size=size,
            normalization_rule_name="identity",
            minloglevel=2,
            **(common | options),
        )
        (HERE / f"{name}.spm").write_bytes(file.getvalue())


def _write_lines(held_out) -> None:  # type: ignore[no-untyped-def]
    if (HERE / "lines.txt").is_file():
        return
    drawn = random.Random(5)
    pairs = drawn.sample(held_out, SENTENCES + WITH_LANGUAGE)
    english, korean = zip(*pairs, strict=True)
    texts = []
    for name in ("source", "target", "vocab", "bpe", "learnt"):
        model = sentencepiece.SentencePieceProcessor(model_file=str(HERE / f"{name}.spm"))
        texts += [model.IdToPiece(index) for index in range(3, model.GetPieceSize())]
    pieces = sorted(set(texts))
    lines = [*english[:SENTENCES], *(f">>kor<< {line}" for line in english[SENTENCES:])]
    for _ in range(OF_RANDOM_PIECES):
        text = "".join(drawn.choices(pieces, k=drawn.randint(2, 14))).replace("▁", " ")
        lines.append(" ".join(text.split()))
    for name, rows in (("lines", [*lines, *ODD]), ("references", korean[:SENTENCES])):
        (HERE / f"{name}.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")


def _train(models, train) -> None:  # type: ignore[no-untyped-def]
    """Train a model of transformers' own classes, and store its weights in half precision."""
    spm = sentencepiece.SentencePieceProcessor(model_file=str(HERE / "learnt.spm"))
    row_of = {text: row for row, text in enumerate(models.learnt_names())}
    sides = [
        [[row_of[piece] for piece in (*spm.EncodeAsPieces(text), "</s>")] for text in one]
        for one in zip(*train, strict=True)
    ]
    torch.manual_seed(1)
    config = transformers.MarianConfig(**models.learnt_config(), dropout=DROPOUT)
    model, pad = transformers.MarianMTModel(config).train(), config.pad_token_id
    for name, weight in model.named_parameters():
        if name == "model.shared.weight":
            torch.nn.init.normal_(weight, 0, config.d_model**-0.5)
        elif weight.dim() == 2 and weight.requires_grad:
            torch.nn.init.xavier_uniform_(weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98))
    falls = UPDATES - WARM_UP
    rate = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / WARM_UP, (UPDATES - step) / falls)
    )
    order: list[int] = []
    for update in range(UPDATES):
        order = order if len(order) >= BATCH else torch.randperm(len(train)).tolist()
        batch, order = order[:BATCH], order[BATCH:]
        source, target = ([torch.tensor(side[place]) for place in batch] for side in sides)
        given = torch.nn.utils.rnn.pad_sequence(source, batch_first=True, padding_value=pad)
        labels = torch.nn.utils.rnn.pad_sequence(target, batch_first=True, padding_value=-100)
        logits = model(input_ids=given, attention_mask=(given != pad).long(), labels=labels).logits
        loss = torch.nn.functional.cross_entropy(logits.transpose(1, 2), labels, label_smoothing=SMOOTHING)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rate.step()
        if update % 100 == 99:
            print("update", update + 1, f"loss {loss:.3f}", flush=True)
    kept = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    np.savez_compressed(
        models.LEARNT_WEIGHTS, **{name: weight.detach().half().numpy() for name, weight in kept.items()}
    )


def _loaded(models, shape, folder):  # type: ignore[no-untyped-def]
    """Return the model, the ids of the lines with their end marks, and options of generate."""
    options = {"do_sample": False, "max_new_tokens": MOST_TOKENS}
    if shape in ("marian", models.LEARNT):
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
            rows.append(written[: written.index(end)] if end in written else written)
    return rows


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
