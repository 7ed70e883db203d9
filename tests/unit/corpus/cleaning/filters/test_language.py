"""The filter of languages: another language, swapped sides, short pairs and near languages."""

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
    text = "loghaj tlhIngan Hol. bIQaw'chugh vaj bIQap."  # Klingon, which no model knows

    table = judged([(ENGLISH, text), (FRENCH, text)], "en-tlh", min_language_probability=0.2)

    assert table["reason"].to_list() == [None, "wrong_language"]
    assert table["target_language"].to_list() == [None, None]


MENU = [("Undo", "Annuler"), ("Menu bar", "Barre de menus"), ("Starred", "Favori"), ("Rows", "Lignes")]
SWAPPED = [("Menu bar", "Barre de menus"), ("File name", "Nom du fichier")]


def test_short_pairs_are_refused_if_both_sides_are_swapped(judged: Judge) -> None:
    straight = judged(MENU, "en-fr", min_language_probability=0.2)
    swapped = judged([pair[::-1] for pair in SWAPPED], "en-fr", min_language_probability=0.2)

    assert straight["reason"].to_list() == [None] * len(MENU)
    assert swapped["reason"].to_list() == ["wrong_language"] * len(SWAPPED)


def test_near_languages_are_not_told_apart(judged: Judge) -> None:
    spanish = "Hacía buen tiempo, así que fuimos al lago."

    table = judged([(ENGLISH, spanish), (spanish, spanish[::-1])], "en-ast", min_language_probability=0.2)

    assert table["reason"][0] is None
    assert table["reason"][1] == "wrong_language"


def all_german(text: pl.Series, model: str) -> pl.DataFrame:
    return text.to_frame("text").select(language=pl.lit("deu_Latn"), probability=pl.lit(1.0))


def test_an_identifier_of_the_recipe_replaces_the_built_in_ones(judged: Judge) -> None:
    table = judged([(ENGLISH, FRENCH)], min_language_probability=0.2, identifier=f"{__name__}:all_german")

    assert table.select("source_language", "target_language", "value").row(0) == ("de", "de", "source de 1.0")
