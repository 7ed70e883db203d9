"""Links are found in text whose links are known, and each target piece has one source position or none."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt_core.batches.lexical_model import LexicalModel, Pieces, links_of
from nmt_core.batches.word_alignment import Aligner, Vocabulary, grow_diag_final_and
from nmt_core.corpus.toy import generate, words_of
from nmt_core.corpus.toy.lexicon import NOUNS
from nmt_core.tokenizer.tokenizer import Tokenizer

Lines = list[list[int]]
WORDS = 60
OTHERS = np.arange(4, 8)
"""Articles of the source, and endings of the target. They do not translate each other."""
NAMES = np.arange(8, 8 + WORDS)


def pieces(lines: Sequence[Sequence[int]]) -> Pieces:
    return Pieces(np.array([piece for line in lines for piece in line], np.int32), np.cumsum([0, *map(len, lines)]))


def text(lines: int, seed: int) -> tuple[Lines, Lines, Lines]:
    """Words in another order on the other side, each before an ending, and the source position of each target piece."""
    translation = dict(zip(NAMES.tolist(), np.random.default_rng(0).permutation(NAMES).tolist(), strict=True))
    generator = np.random.default_rng(seed)
    sources, targets, links = list[list[int]](), list[list[int]](), list[list[int]]()
    for _ in range(lines):
        line = generator.choice(NAMES, size=generator.integers(2, 7), replace=False).tolist()
        order = generator.permutation(len(line)).tolist()
        sources.append([int(generator.choice(OTHERS)), *line])
        ending = int(generator.choice(OTHERS))
        targets.append([piece for place in order for piece in (translation[line[place]], ending)])
        links.append([place + 1 for place in order for _ in range(2)])
    return sources, targets, links


SIZE = 8 + WORDS
LETTERS = Vocabulary(np.ones(SIZE, bool), np.zeros(SIZE, bool))
WITH_ENDINGS = Vocabulary(~np.isin(np.arange(SIZE), OTHERS), np.zeros(SIZE, bool))


@pytest.fixture(scope="module")
def aligner() -> Aligner:
    sources, targets, _ = text(lines=1_500, seed=1)
    return Aligner.learn(pieces(sources), pieces(targets), (LETTERS, WITH_ENDINGS))


def test_each_word_is_linked_with_its_translation_and_an_ending_with_its_word(aligner: Aligner) -> None:
    sources, targets, links = text(lines=300, seed=2)
    place_T = aligner.align(pieces(sources), pieces(targets))
    expected_T = np.concatenate(links)
    is_ending_T = np.isin(pieces(targets).ids, OTHERS)
    assert (place_T == expected_T)[~is_ending_T].mean() > 0.99
    assert (place_T == expected_T)[is_ending_T].mean() > 0.99, "an ending goes with its word, not with the article"


def test_without_words_an_ending_has_its_own_link(aligner: Aligner) -> None:
    alone = Aligner(replace(aligner.forward, target=LETTERS), aligner.backward)
    sources, targets, links = text(lines=300, seed=2)
    place_T = alone.align(pieces(sources), pieces(targets))
    is_ending_T = np.isin(pieces(targets).ids, OTHERS)
    assert (place_T == np.concatenate(links))[is_ending_T].mean() < 0.9
    assert (place_T == np.concatenate(links))[~is_ending_T].mean() > 0.99


def test_marks_are_linked_with_marks_only() -> None:
    """Every sentence ends with a mark, and its translation with a verb that says as little, and a mark."""
    sources, targets, _ = text(lines=300, seed=6)
    mark, verb = SIZE, SIZE + 1
    is_mark_V = np.arange(SIZE + 2) == mark
    vocabulary = Vocabulary(np.ones(SIZE + 2, bool), is_mark_V)
    source, target = pieces([[*line, mark] for line in sources]), pieces([[*line, verb, mark] for line in targets])
    for vocabularies, linked in (
        ((vocabulary, vocabulary), False),
        ((replace(vocabulary, is_mark_V=~is_mark_V | 1),) * 2, True),
    ):
        place_T = Aligner.learn(source, target, vocabularies).align(source, target)
        ends_T = np.repeat(source.lengths - 1, target.lengths)
        assert (place_T == ends_T)[target.ids == mark].mean() > 0.99
        assert ((place_T == ends_T)[target.ids == verb].mean() > 0.3) == linked


def test_sentences_do_not_depend_on_their_neighbours(aligner: Aligner, tmp_path: Path) -> None:
    aligner.save(tmp_path / "aligner.safetensors")
    loaded = Aligner.load(tmp_path / "aligner.safetensors")
    sources, targets, _ = text(lines=40, seed=3)
    sources[5], targets[7], sources[9], targets[9] = [], [], [], []
    sources[11] = [1, *sources[11]]  # <unk>, which the text does not have
    together_T = aligner.align(pieces(sources), pieces(targets))
    alone = [loaded.align(pieces([one]), pieces([other])) for one, other in zip(sources, targets, strict=True)]
    np.testing.assert_array_equal(together_T, np.concatenate(alone))
    assert (alone[5] == -1).all() and len(alone[5]), "nothing to be linked with"


def test_the_same_text_makes_the_same_file(aligner: Aligner, tmp_path: Path) -> None:
    sources, targets, _ = text(lines=1_500, seed=1)
    again = Aligner.learn(pieces(sources), pieces(targets), (LETTERS, WITH_ENDINGS))
    for number, one in enumerate((aligner, again)):
        one.save(tmp_path / str(number))
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes()


def test_text_in_the_same_order_has_a_tension_and_text_in_any_order_none() -> None:
    sources, targets, _ = text(lines=400, seed=4)
    for other, tension in ((targets, 0.0), (sources, 8.0)):
        model = LexicalModel(SIZE, SIZE, has_positions=True)
        for _ in range(3):
            model.learn(pieces(sources), pieces(other))
            model.tighten(pieces(sources), pieces(other))
        assert model.tension == tension


def test_the_prior_matches_the_paper() -> None:
    (links,) = links_of(pieces([[5, 6, 7]]), pieces([[8, 9]]), none=20)
    prior_L = links.prior(tension=4.0).reshape(2, 4)
    np.testing.assert_allclose(prior_L.sum(axis=1), 1)
    np.testing.assert_allclose(prior_L[:, 3], 0.08)
    near = [[np.exp(-4 * abs((t + 0.5) / 2 - (s + 0.5) / 3)) for s in range(3)] for t in range(2)]
    np.testing.assert_allclose(prior_L[:, :3] / prior_L[:, :1], np.array(near) / np.array(near)[:, :1])


def matrix(*rows: str) -> np.ndarray:
    return np.array([[[cell == "x" for cell in row] for row in rows]])


def test_links_grow_from_the_links_of_both_directions() -> None:
    forward = matrix("x...", ".x..", ".x..", "...x")
    backward = matrix("x...", ".xx.", "....", "....")
    # Of both: the first two on the diagonal. Beside the second: a free column, and a free row. At last: both are free.
    assert grow_diag_final_and(forward, backward).tolist() == matrix("x...", ".xx.", ".x..", "...x").tolist()


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 1_000))
def test_joined_links_are_between_the_intersection_and_the_union(rows: int, columns: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    forward, backward = np.zeros((2, 3, rows, columns), bool)
    for number in range(3):
        forward[number, np.arange(rows), generator.integers(0, columns, rows)] = generator.random(rows) < 0.8
        backward[number, generator.integers(0, rows, columns), np.arange(columns)] = generator.random(columns) < 0.8
    found = grow_diag_final_and(forward, backward)
    assert (found >= (forward & backward)).all() and (found <= (forward | backward)).all()
    free = ~found.any(axis=1, keepdims=True) & ~found.any(axis=2, keepdims=True)
    assert not ((forward | backward) & free).any(), "no link between two free pieces is left out"


def test_a_word_begins_at_a_space_or_is_a_mark(tiny_tokenizer: Tokenizer) -> None:
    vocabulary = Vocabulary.of(tiny_tokenizer)
    ids = tiny_tokenizer.encode(["the cat sees 나는 학생", "a  big house."])
    assert [int(vocabulary.begins_V[line].sum()) for line in ids] == [5, 4], "a full stop is a word of its own"
    assert [int(vocabulary.is_mark_V[line].sum()) for line in ids] == [0, 1]


def test_links_of_the_toy_corpus_are_true() -> None:
    """Nouns are linked with their translations. Korean words have endings, and come in another order."""
    corpus = generate(pairs=3_000, seed=5, held_out=200)
    vocabulary = dict[str, int]()

    def ids(lines: list[list[str]]) -> Pieces:
        return pieces([[vocabulary.setdefault(word, len(vocabulary)) for word in line] for line in lines])

    pairs = [(words_of(source), target.rstrip(".?").split()) for source, target in [*corpus.train, *corpus.test]]
    source, target = ids([one for one, _ in pairs]), ids([other for _, other in pairs])
    size = len(vocabulary)
    words = Vocabulary(np.ones(size, bool), np.zeros(size, bool))
    place_T = Aligner.learn(source, target, (words, words)).align(source, target)
    right = linked = true = 0
    for number, (english, korean) in enumerate(pairs[-200:], start=len(pairs) - 200):
        of_one = place_T[target.starts[number] : target.starts[number + 1]]
        for noun in (noun for row in NOUNS.values() for noun in row):
            left = [place for place, word in enumerate(english) if word in (noun.en, noun.plural)]
            others = [place for place, word in enumerate(korean) if word.startswith(noun.ko)]
            if len(left) == len(others) == 1:
                true, linked = true + 1, linked + (of_one[others[0]] >= 0)
                right += of_one[others[0]] == left[0]
    assert true > 200
    assert right / true > 0.9 and right / linked > 0.9
