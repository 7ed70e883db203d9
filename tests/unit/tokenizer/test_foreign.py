"""Vocabularies of other programs cut text as those programs do, or are refused with the part that cannot be."""

import base64
import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from support.facts import raises

from nmt_core.config import PipelineConfig
from nmt_core.errors import ConfigError
from nmt_core.tokenizer.foreign import sentencepiece_model
from nmt_core.tokenizer.start import foreign_files, identity
from nmt_core.tokenizer.tokenizer import EOS_ID, SOURCE_SPM_FILE, SPM_FILE, Tokenizer, Tokenizers

GOLDEN = Path(__file__).parents[2] / "golden/tokenizers"
EXPECTED: dict[str, list[Any]] = json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))
TEXT = [
    f"{who} {what} {where} {end}"
    for who in ("The cat", "A dog", "Ｆｕｌｌ width")
    for what in ("sees it", "ﬁnds ½")
    for where in ("here", "in the house", "under a tree")
    for end in (".", "!", "now", "again")
]


def pieces(model: bytes, lines: Iterable[str]) -> list[list[str]]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [[processor.IdToPiece(index) for index in processor.EncodeAsIds(line)] for line in lines]


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_text_is_cut_as_by_the_library_that_made_the_file(kind: str, tmp_path: Path) -> None:
    model = sentencepiece_model(GOLDEN / f"{kind}.json")
    assert pieces(model, EXPECTED["lines"]) == EXPECTED[kind]
    (tmp_path / SPM_FILE).write_bytes(model)
    tokenizer = Tokenizer(tmp_path / SPM_FILE)
    described = json.loads((GOLDEN / f"{kind}.json").read_text(encoding="utf-8"))["model"]["vocab"]
    known = [text for text, _ in described] if kind == "unigram" else sorted(described, key=described.__getitem__)
    special = ["<pad>", "<unk>", "<s>", "</s>"]
    expected = [*special, *(text for text in known if text not in special)]
    assert [tokenizer.piece(index) for index in range(tokenizer.vocab_size)] == expected, "their order is kept"
    lines = EXPECTED["lines"][:40]
    assert tokenizer.decode(tokenizer.encode(lines)) == lines
    if kind == "unigram":
        assert "<mask>" not in pieces(model, ["a <mask> b"])[0], "text never becomes a special piece"


def learnt(**options: Any) -> bytes:
    """SentencePiece model of `TEXT` with the special ids of SentencePiece itself."""
    model = io.BytesIO()
    options = {"model_type": "unigram", "vocab_size": 70, "hard_vocab_limit": False} | options
    trainer = sentencepiece.SentencePieceTrainer
    trainer.Train(sentence_iterator=iter(TEXT), model_writer=model, minloglevel=2, **options)
    return model.getvalue()


def described(model: bytes) -> dict[str, Any]:
    """A tokenizer.json as converters write it for a unigram model of SentencePiece with its own normalisation."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    charsmap = base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()
    return {
        "added_tokens": [{"id": 0, "content": "<unk>", "special": True}, {"id": 1, "content": "<s>", "special": True}],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Precompiled", "precompiled_charsmap": charsmap},
                {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
            ],
        },
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "WhitespaceSplit"},
                {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
            ],
        },
        "model": {"type": "Unigram", "unk_id": 0, "vocab": [[piece.piece, piece.score] for piece in proto.pieces]},
    }


@pytest.fixture(scope="module")
def unigram() -> bytes:
    return learnt(normalization_rule_name="nmt_nfkc")


def written(folder: Path, content: Any) -> Path:
    file = folder / "tokenizer.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    return file


def test_a_normalisation_of_sentencepiece_is_kept(unigram: bytes, tmp_path: Path) -> None:
    found = pieces(sentencepiece_model(written(tmp_path, described(unigram))), [*TEXT, "a ½ ☃"])
    assert found == pieces(unigram, [*TEXT, "a ½ ☃"])
    assert any("fi" in "".join(row) for row in found) and not any("ﬁ" in "".join(row) for row in found)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_special_ids_of_a_sentencepiece_model_are_moved(kind: str, tmp_path: Path) -> None:
    old = learnt(model_type=kind, unk_id=2, bos_id=-1, eos_id=1, pad_id=0, control_symbols=["<2en>"])
    (tmp_path / "spiece.model").write_bytes(old)
    (tmp_path / SPM_FILE).write_bytes(sentencepiece_model(tmp_path / "spiece.model"))
    tokenizer = Tokenizer(tmp_path / SPM_FILE)
    lines = [*TEXT, "☃ unknown"]
    assert [[tokenizer.piece(index) for index in row] for row in tokenizer.encode(lines)] == pieces(old, lines)
    assert tokenizer.piece(EOS_ID) == "</s>" and "<2en>" in map(tokenizer.piece, range(tokenizer.vocab_size))


def changed(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        *parents, last = path.split(".")
        for name in parents:
            content = content[name]
        content[last] = value

    return change


WORDPIECE = {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"[UNK]": 0, "a": 1, "##b": 2}}
ONE_WAY = {"type": "BPE", "vocab": {"▁": 0, "a": 1, "b": 2, "ab": 3, "ba": 4, "aba": 5},
           "merges": [["a", "b"], ["b", "a"], ["ab", "a"]]}  # fmt: skip
LATER = ONE_WAY | {"merges": [["ab", "a"], ["a", "b"], ["b", "a"], ["a", "ba"]]}
RIGHT_FIRST = {"type": "BPE", "vocab": {"▁": 0, "a": 1, "aa": 2, "aaa": 3},
               "merges": [["a", "a"], ["aa", "a"], ["a", "aa"]]}  # fmt: skip
REFUSED: dict[str, tuple[Callable[[dict[str, Any]], None], list[str]]] = {
    "wordpiece": (changed("model", WORDPIECE), ["WordPiece tokenizer with 3 pieces", "takes the longest piece first"]),
    "lower case": (changed("normalizer", {"type": "Lowercase"}), ["its normalizer Lowercase"]),
    "bytes": (changed("pre_tokenizer", {"type": "ByteLevel"}), ["its pre-tokenizer ByteLevel"]),
    "no spaces": (changed("pre_tokenizer", None), ["does not mark spaces"]),
    "added": (changed("added_tokens", [{"content": "<x>", "special": False}]), ["'<x>' is an added token"]),
    "one way": (changed("model", ONE_WAY), ["BPE tokenizer with 6 pieces", "does not join 'a' and 'ba' to 'aba'"]),
    "later": (changed("model", LATER), ["'aba' is joined from 'a' and 'ba' later"]),
    "right": (changed("model", RIGHT_FIRST), ["joins 'aa' and 'a' before 'a' and 'aa'"]),
    "suffix": (changed("model", ONE_WAY | {"end_of_word_suffix": "</w>"}), ["end_of_word_suffix=</w>"]),
    "few bytes": (changed("model.byte_fallback", True), ["not all 256"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_sentencepiece_cannot_compute_is_refused(case: str, unigram: bytes, tmp_path: Path) -> None:
    content, (change, facts) = described(unigram), REFUSED[case]
    change(content)
    file = written(tmp_path, content)
    with raises(ConfigError, "tokenizer.json", *facts, "Learn a vocabulary"):
        sentencepiece_model(file)


def test_a_piece_that_crosses_a_space_is_refused(unigram: bytes, tmp_path: Path) -> None:
    content = described(unigram)
    content["model"]["vocab"].append(["▁sees▁it", -1.0])
    with raises(ConfigError, "'▁sees▁it' crosses one"):
        sentencepiece_model(written(tmp_path, content))


@pytest.mark.parametrize(("content", "fact"), [(b'{"version": 1}', "section `model`"), (b"nothing", "neither")])
def test_other_files_are_refused(content: bytes, fact: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    with raises(ConfigError, "tokenizer.start_from=", fact):
        sentencepiece_model(tmp_path / "file")


def test_the_stage_takes_a_file_or_a_folder_and_counts_its_content(
    learn: Callable[..., Any], make_config: Callable[..., PipelineConfig], tmp_path: Path
) -> None:
    (tmp_path / "hub").mkdir()
    file = tmp_path / "hub" / "tokenizer.json"
    file.write_bytes((GOLDEN / "bpe.json").read_bytes())
    report = learn(tmp_path / "one", start_from=str(file))
    learn(tmp_path / "other", start_from=str(file.parent))
    assert (tmp_path / "one" / SPM_FILE).read_bytes() == (tmp_path / "other" / SPM_FILE).read_bytes()
    assert (report.sampled_pairs, report.vocab_size) == (0, Tokenizer(tmp_path / "one" / SPM_FILE).vocab_size)
    of_file, of_folder = (identity(make_config(tokenizer={"start_from": str(place)})) for place in (file, file.parent))
    assert of_file == of_folder
    file.write_bytes((GOLDEN / "unigram.json").read_bytes())
    assert identity(make_config(tokenizer={"start_from": str(file)})) != of_file
    assert foreign_files(tmp_path / "one") == [], "a folder of this pipeline is taken as it is"


def test_two_vocabularies_of_a_folder_are_the_source_s_and_the_target_s(
    learn: Callable[..., Any], unigram: bytes, tmp_path: Path
) -> None:
    (tmp_path / "opus").mkdir()
    (tmp_path / "opus" / "source.spm").write_bytes(unigram)
    (tmp_path / "opus" / "target.spm").write_bytes(learnt(model_type="bpe", vocab_size=60, hard_vocab_limit=True))
    learn(tmp_path / "out", start_from=str(tmp_path / "opus"))
    assert (tmp_path / "out" / SOURCE_SPM_FILE).is_file()
    tokenizers = Tokenizers.load(tmp_path / "out")
    assert tokenizers.source_vocab_size != tokenizers.target.vocab_size
