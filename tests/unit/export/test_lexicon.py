"""Likely translations are found in text whose translations are known."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import polars
import pytest

from nmt_core.batches import lexical_model
from nmt_core.batches.lexical_model import LONGEST, LexicalModel, Pieces
from nmt_core.config import ExportConfig
from nmt_core.export import lexicon
from nmt_core.export.lexicon import likeliest, make_shortlist, with_copies
from nmt_core.store.artifacts import Artifact
from nmt_core.tokenizer.tokenizer import PAD_ID, Tokenizers

FIRST = 4
Lines = list[list[int]]


def pieces(lines: Sequence[Sequence[int]]) -> Pieces:
    flat = np.array([piece for line in lines for piece in line], np.int32)
    return Pieces(flat, np.cumsum([0, *map(len, lines)]))


def text(words: int, lines: int, seed: int = 1) -> tuple[Lines, Lines, dict[int, int]]:
    """Return sentences, their translations in another word order, and the dictionary.

    Each translation begins with a piece that has no meaning.
    """
    generator = np.random.default_rng(seed)
    names = np.arange(FIRST + 1, FIRST + 1 + words)
    translation = dict(zip(names.tolist(), generator.permutation(names).tolist(), strict=True))
    sources, targets = list[list[int]](), list[list[int]]()
    for _ in range(lines):
        line = generator.choice(names, size=generator.integers(2, 9)).tolist()
        sources.append(line)
        targets.append([FIRST, *generator.permutation([translation[word] for word in line]).tolist()])
    return sources, targets, translation


def reference(sources: Lines, targets: Lines, none: int) -> dict[int, dict[int, float]]:
    """Return the expected counts of IBM model 1, written as in the paper: source to target to count."""
    table: dict[tuple[int, int], float] = defaultdict(lambda: 1.0)
    counts: dict[int, dict[int, float]] = {}
    for _ in range(lexicon._ITERATIONS + 1):
        counts = defaultdict(lambda: defaultdict(float))
        for source, target in zip(sources, targets, strict=True):
            for piece in target:
                weights = [(table[other, piece], other) for other in [*source, none]]
                total = sum(weight for weight, _ in weights)
                for weight, other in weights:
                    counts[other][piece] += weight / total
        table = defaultdict(float)
        for other, of_other in counts.items():
            for piece, count in of_other.items():
                table[other, piece] = count / sum(of_other.values())
    return counts


def test_the_translation_of_a_piece_comes_first() -> None:
    sources, targets, translation = text(words=60, lines=1_500)
    found_VK = likeliest(pieces(sources), pieces(targets), (70, 70), 3)
    assert {word: int(found_VK[word, 0]) for word in translation} == translation
    assert (found_VK[[0, 1, 2, 3, 69]] == PAD_ID).all()


def test_neighbours_are_explained_by_what_they_translate() -> None:
    """8 follows 7 wherever 7 is, and also occurs without it. Only the model knows which of them 18 translates."""
    sources = [[7, 8], [7, 8, 9], [8, 9], [8], [8, 9]] * 20
    targets = [[17, 18], [18, 17, 19], [18, 19], [18], [19, 18]] * 20
    found_VK = likeliest(pieces(sources), pieces(targets), (20, 20), 1)
    assert found_VK[[7, 8, 9], 0].tolist() == [17, 18, 19]


@pytest.mark.parametrize("chunk", [1, 50, 1 << 20])
def test_counts_match_the_paper(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexical_model, "_CHUNK_LINKS", chunk)
    monkeypatch.setattr(lexical_model, "LEAST_POSTERIOR", 0.0)
    sources, targets, _ = text(words=12, lines=60)
    model = LexicalModel(20, 20)
    for _ in range(lexicon._ITERATIONS):
        model.learn(pieces(sources), pieces(targets))
    pairs, counts = model.expected(pieces(sources), pieces(targets))
    found = {divmod(pair, 20): count for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True)}
    expected = reference(sources, targets, none=20)
    assert found == pytest.approx(
        {(source, target): count for source, of_source in expected.items() for target, count in of_source.items()},
        rel=1e-3,
        abs=1e-5,
    )


def test_pairs_that_share_a_cell_do_little_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    sources, targets, translation = text(words=60, lines=1_500)
    monkeypatch.setattr(lexical_model, "_CELLS", 1 << 11)  # for 61 * 61 pairs that come together, and more that do not
    found_VK = likeliest(pieces(sources), pieces(targets), (70, 70), 1)
    right = sum(int(found_VK[word, 0]) == other for word, other in translation.items())
    assert right > 0.9 * len(translation)


def test_long_and_empty_sentences_are_passed_over() -> None:
    sources, targets, translation = text(words=20, lines=300)
    more = [[], [5], [5] * (LONGEST + 1), [6]], [[5], [], [9], [9] * (LONGEST + 1)]
    found = [
        likeliest(pieces(one), pieces(other), (30, 30), 2)
        for one, other in ((sources, targets), (sources + more[0], targets + more[1]))
    ]
    np.testing.assert_array_equal(found[0], found[1])
    assert translation


def test_a_piece_is_the_first_of_its_own_translations() -> None:
    table = np.array([[0, 0, 0], [5, 1, 6], [7, 8, 9], [4, 0, 0], [5, 6, 4]])
    assert with_copies(table).tolist() == [[0, 0, 0], [1, 5, 6], [2, 7, 8], [3, 4, 0], [4, 5, 6]]


def test_a_shortlist_is_made_from_the_training_text(tiny: dict[str, Artifact]) -> None:
    split, tokenizers = tiny["split"].path, Tokenizers.load(tiny["tokenizer"].path)
    config = ExportConfig(shortlist=True, shortlist_frequent=20, shortlist_translations=8)
    made = make_shortlist(split, tokenizers, config)
    size = tokenizers.target.vocab_size
    assert made.frequent_F.shape == (20,)
    assert made.translations_VK.shape == (size, 8)
    assert made.frequent_F.dtype == made.translations_VK.dtype == np.uint16
    assert made.translations_VK[FIRST:, 0].tolist() == list(range(FIRST, size)), "the vocabulary is joint"
    again = make_shortlist(split, tokenizers, config)
    np.testing.assert_array_equal(again.translations_VK, made.translations_VK)
    few = make_shortlist(split, tokenizers, config.model_copy(update={"shortlist_pairs": 100}))
    assert (few.translations_VK == PAD_ID).sum() > (made.translations_VK == PAD_ID).sum(), "a sample knows less"


def test_a_word_of_the_toy_finds_its_translation(tiny: dict[str, Artifact]) -> None:
    tokenizers = Tokenizers.load(tiny["tokenizer"].path)
    config = ExportConfig(shortlist=True, shortlist_frequent=1, shortlist_translations=8)
    made = make_shortlist(tiny["split"].path, tokenizers, config)
    pairs = polars.read_parquet(tiny["split"].path / "dev.parquet")
    covered = total = 0
    for source, target in pairs.select("source", "target").iter_rows():
        [source_ids], [target_ids] = tokenizers.source.encode([source]), tokenizers.target.encode([target])
        listed = set(made.translations_VK[source_ids].ravel().tolist())
        covered += sum(piece in listed for piece in target_ids)
        total += len(target_ids)
    assert covered / total > 0.85
