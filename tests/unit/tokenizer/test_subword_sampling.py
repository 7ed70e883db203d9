"""Random segmentation: without randomness it is the best one, and otherwise each occurs as often as it should."""

import math
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2

from nmt_core.tokenizer.subword_sampling import WordSampler
from nmt_core.tokenizer.tokenizer import SPACE_MARK, Tokenizer, Tokenizers

WORDS = st.one_of(
    st.text(st.characters(exclude_characters=" \u2581", exclude_categories=("Cs",)), max_size=12),
    st.lists(st.sampled_from(["나는", "학생", "student", "__N__", "ab", "漢字", "ñ", "the", "."]), max_size=4).map(
        "".join
    ),
)


@pytest.fixture(scope="module")
def tokenizers(learn: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tokenizer]:
    folder, found = tmp_path_factory.mktemp("sampling"), {}
    for name, options in {
        "bpe": {"user_symbols": ("__N__", "ab")},
        "bytes": {"byte_fallback": True, "vocab_size": 1_000},
        "morphemes": {"pretokenize_source": "morphemes"},
        "unigram": {"kind": "unigram"},
    }.items():
        learn(folder / name, **{"vocab_size": 700, **options})
        found[name] = Tokenizers.load(folder / name).source
    return found


@pytest.mark.parametrize("name", ["bpe", "bytes", "morphemes"])
@settings(max_examples=200)
@given(word=WORDS)
def test_without_chance_it_is_byte_pair_encoding(tokenizers: dict[str, Tokenizer], name: str, word: str) -> None:
    (cut,) = tokenizers[name].pretokenize([word])
    assert (
        WordSampler(tokenizers[name], 0.0).draw(cut, random.Random(1)) == tokenizers[name].encode_pretokenized([cut])[0]
    )


def test_with_all_merges_left_out_characters_are_left(tokenizers: dict[str, Tokenizer]) -> None:
    ids = WordSampler(tokenizers["bpe"], 1.0).draw("student", random.Random(1))
    assert [tokenizers["bpe"].piece(index) for index in ids] == [SPACE_MARK, *"student"]


def test_the_share_of_merges_left_out_is_the_one_asked_for(tokenizers: dict[str, Tokenizer]) -> None:
    """With two characters, there is one merge to leave out. The mark of the word has no merge with this letter."""
    sampler, rng = WordSampler(tokenizers["bpe"], 0.3), random.Random(1)
    (symbols,) = ({a + b for a in "aeiost" for b in "aeionrst"} & set(sampler._scores),)
    pair = sorted(symbols)[0]
    kept = sum(sampler._by_merges(pair, rng) == [pair] for _ in range(4_000)) / 4_000
    assert kept == pytest.approx(0.7, abs=0.03)


@pytest.mark.parametrize("strength", [0.2, 1.0])
def test_unigram_segmentations_come_as_often_as_they_are_likely(
    tokenizers: dict[str, Tokenizer], strength: float
) -> None:
    tokenizer, word = tokenizers["unigram"], "student"
    model = sentencepiece_model_pb2.ModelProto.FromString(tokenizer.serialised())
    scores = {piece.piece: piece.score for piece in model.pieces if piece.type == piece.NORMAL}

    def ways(text: str) -> list[tuple[str, ...]]:
        if not text:
            return [()]
        starts = [text[:end] for end in range(1, len(text) + 1) if text[:end] in scores]
        return [(start, *rest) for start in starts for rest in ways(text[len(start) :])]

    weights = {way: math.exp(strength * sum(map(scores.__getitem__, way))) for way in ways(SPACE_MARK + word)}
    assert len(weights) > 1
    sampler, rng = WordSampler(tokenizer, strength), random.Random(1)
    drawn = Counter(tuple(map(tokenizer.piece, sampler.draw(word, rng))) for _ in range(6_000))
    for way, weight in weights.items():
        assert drawn[way] / 6_000 == pytest.approx(weight / sum(weights.values()), abs=0.03)


@pytest.mark.parametrize("name", ["bpe", "bytes", "morphemes", "unigram"])
@settings(max_examples=60)
@given(word=WORDS, seed=st.integers(0, 99))
def test_any_segmentation_spells_the_word(tokenizers: dict[str, Tokenizer], name: str, word: str, seed: int) -> None:
    tokenizer = tokenizers[name]
    (cut,) = tokenizer.pretokenize([word])
    ids = WordSampler(tokenizer, 0.3).draw(cut, random.Random(seed))
    assert tokenizer.decode([ids]) == tokenizer.decode(tokenizer.encode([word]))
