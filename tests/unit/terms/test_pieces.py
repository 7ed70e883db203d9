"""Pieces that spell a term, and terms that cannot be spelled."""

import pytest

from nmt_core.terms.glossary import Term
from nmt_core.terms.pieces import TermPieces, faults_of
from nmt_core.tokenizer.tokenizer import UNK_ID, Tokenizer


@pytest.fixture(scope="module")
def pieces(tiny_tokenizer: Tokenizer) -> TermPieces:
    return TermPieces(tiny_tokenizer)


@pytest.mark.parametrize("text", ["house", "small dog", "학생", "the", "dog."])
def test_every_form_spells_the_term(pieces: TermPieces, tiny_tokenizer: Tokenizer, text: str) -> None:
    forms = pieces.forms((text,))
    assert len(forms) >= 2
    decoded = tiny_tokenizer.decode([form.ids for form in forms])
    assert set(decoded) == {text}  # the vocabulary has no capitals
    starts = [tiny_tokenizer.piece(form.ids[0])[0] for form in forms]
    assert [form.begin > 0 for form in forms] == [start != "\u2581" for start in starts]


def test_borders_of_pieces(pieces: TermPieces, tiny_tokenizer: Tokenizer) -> None:
    by_piece = {tiny_tokenizer.piece(index): index for index in range(tiny_tokenizer.vocab_size)}
    assert pieces.begin_V[by_piece["\u2581"]] == pieces.end_V[by_piece["\u2581"]] == 0
    assert pieces.begin_V[by_piece["."]] == 0 and pieces.begin_V[by_piece["o"]] == 1
    assert pieces.begin_V[by_piece["를"]] == 2


def test_what_cannot_be_spelled_or_is_too_long_is_named(pieces: TermPieces, tiny_tokenizer: Tokenizer) -> None:
    assert pieces.forms(("中",)) == ()
    terms = [
        Term("dog", ("中",)),
        Term("cat", ("house",)),
        Term("cat " * 20, ("dog",)),
        Term("中"),
        Term("it", ("中", "now")),
    ]
    faults = faults_of(terms, pieces, tiny_tokenizer, 16)
    assert len(faults) == 2
    assert "'dog = 中': the model's vocabulary cannot write the translation" in faults[0]
    assert "tokens, and the model reads 16: use a shorter term" in faults[1]
    assert UNK_ID in tiny_tokenizer.encode(["中"])[0]
