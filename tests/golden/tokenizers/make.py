"""Make the golden files of this folder with Hugging Face's `tokenizers`, which the tests do without.

    pip install tokenizers==0.23.3 && python tests/golden/tokenizers/make.py

`unigram.json` is a unigram model that the library has learnt. `bpe.json` is byte-pair encoding by SentencePiece, as the
library stores it: with every way to join each piece, best first, and with bytes. `expected.json` has lines and the
pieces into which the library cuts them.
"""

import io
import json
from pathlib import Path

import sentencepiece
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from nmt_core.corpus.toy import generate

HERE = Path(__file__).parent
TEXT = [side for pair in generate(pairs=1_000, seed=1, held_out=20).train for side in pair]
LINES = [side for pair in generate(pairs=1_000, seed=9, held_out=20).dev for side in pair]
LINES += ["zq x 42", "한국어 漢字 text", "☃☃ snow", "a", "the the the", "Ünïcode ß", "aaaa bbbb", "...", "x☃y"]


def unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.UnigramTrainer(vocab_size=900, special_tokens=special, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(TEXT, trainer)
    return tokenizer


def bpe() -> Tokenizer:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(TEXT),
        model_writer=model,
        model_type="bpe",
        vocab_size=1_100,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=2,
    )
    learnt = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    vocab = {learnt.IdToPiece(index): index for index in range(learnt.GetPieceSize())}
    scores = {piece: learnt.GetScore(index) for piece, index in vocab.items()}
    joins = [
        (piece[:cut], piece[cut:])
        for piece, index in vocab.items()
        if not learnt.IsByte(index) and not learnt.IsControl(index) and not learnt.IsUnknown(index)
        for cut in range(1, len(piece))
        if piece[:cut] in vocab and piece[cut:] in vocab
    ]
    joins.sort(key=lambda pair: (-scores[pair[0] + pair[1]], len(pair[0])))
    tokenizer = Tokenizer(models.BPE(vocab, joins, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return tokenizer


def main() -> None:
    expected = {}
    for name, tokenizer in (("unigram", unigram()), ("bpe", bpe())):
        described = json.loads(tokenizer.to_str())
        (HERE / f"{name}.json").write_text(json.dumps(described, ensure_ascii=False, separators=(",", ":")) + "\n")
        ids = [tokenizer.encode(line, add_special_tokens=False).ids for line in LINES]
        expected[name] = [[tokenizer.id_to_token(index) for index in row] for row in ids]
    lines = ["{", f'"lines": {json.dumps(LINES, ensure_ascii=False)},']
    lines += [f'"{name}": {json.dumps(pieces, ensure_ascii=False)}' for name, pieces in expected.items()]
    (HERE / "expected.json").write_text("\n".join([*lines[:2], ",\n".join(lines[2:]), "}"]) + "\n")


if __name__ == "__main__":
    main()
