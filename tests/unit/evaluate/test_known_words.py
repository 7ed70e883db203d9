"""The column "No UNK": scores of the sentences whose words the vocabulary knows."""

from pathlib import Path

import pytest

from nmt_core.evaluate.known_words import places_of_known_words, scores_of_known_words
from nmt_core.scoring import score
from nmt_core.translator import Translator

SOURCES = ["the cat sees a dog.", "the Ω sees a dog.", "a big house", "now"]
REFERENCES = ["the dog sees a cat.", "a big house", "a Ω house", "the big cat and the dog"]
HYPOTHESES = ["the dog sees a cat.", "nothing of it", "nothing of it", "the big cat and a dog"]


@pytest.fixture(scope="module")
def translator(tiny_bundle: Path) -> Translator:
    return Translator.load(tiny_bundle)


def test_a_sentence_counts_if_both_sides_are_known(translator: Translator) -> None:
    assert places_of_known_words(translator, SOURCES, REFERENCES) == [0, 3]


def test_the_others_do_not_lower_the_score(translator: Translator) -> None:
    texts = (SOURCES, REFERENCES, HYPOTHESES)
    scores, count = scores_of_known_words("news", translator, texts, "en")
    assert count == 2
    assert scores == score("news", HYPOTHESES[::3], REFERENCES[::3], "en")
    assert scores[0].score > score("news", HYPOTHESES, REFERENCES, "en")[0].score + 20


def test_there_is_no_column_where_it_would_say_nothing_new(translator: Translator) -> None:
    known = (SOURCES[:1], REFERENCES[:1], HYPOTHESES[:1])
    assert scores_of_known_words("news", translator, known, "en") == ([], 1)
    unknown = (SOURCES[1:3], REFERENCES[1:3], HYPOTHESES[1:3])
    assert scores_of_known_words("news", translator, unknown, "en") == ([], 0)
