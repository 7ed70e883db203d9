from collections.abc import Callable

import polars as pl

Judge = Callable[..., pl.DataFrame]
ENGLISH = "The weather was nice, and so we went to the lake."
GERMAN = "Das Wetter war schön, und so gingen wir an den See."
FRENCH = "Il faisait beau, et nous sommes donc allés au lac."


def test_a_side_in_another_language(judged: Judge) -> None:
    table = judged([(ENGLISH, GERMAN), (ENGLISH, FRENCH), (FRENCH, GERMAN)], min_language_probability=0.2)

    assert table["reason"].to_list() == [None, "wrong_language", "wrong_language"]
    assert [str(value).split()[:2] for value in table["value"]] == [["None"], ["target", "fr"], ["source", "fr"]]
    assert table["source_language"].to_list() == ["en", "en", "fr"]
    assert table["target_language"].to_list() == ["de", "fr", "de"]


def test_swapped_sides(judged: Judge) -> None:
    table = judged([(GERMAN, ENGLISH)], min_language_probability=0.2)

    assert table.select("reason", "source_language", "target_language").row(0) == ("wrong_language", "de", "en")


def test_rows_that_went_before_are_not_identified(judged: Judge) -> None:
    table = judged([("", GERMAN), (ENGLISH, GERMAN)], min_language_probability=0.2)

    assert table["target_language"].to_list() == [None, "de"]


def test_identification_can_be_switched_off(judged: Judge) -> None:
    table = judged([(ENGLISH, FRENCH)], min_language_probability=0)

    assert table.select("reason", "source_language").row(0) == (None, None)


def test_a_side_whose_language_is_not_known_is_not_identified(judged: Judge) -> None:
    text = "Mutana sun tafi kasuwa da safe don sayen abinci."  # Hausa, which the model does not know

    table = judged([(ENGLISH, text), (FRENCH, text)], "en-ha", min_language_probability=0.2)

    assert table["reason"].to_list() == [None, "wrong_language"]
    assert table["target_language"].to_list() == [None, None]
