"""Mojibake is repaired, and sound text is left alone."""

import pytest

from nmt_core.spelling import AS_IT_IS
from nmt_core.text.mojibake import repair

TABLES = ("cp1252", "latin-1", "cp1250", "iso8859-2", "cp1251")
TEXTS = (
    "Žádný příliš žluťoučký kůň",
    "Größe: 5 µm – „schön“",
    "Dziękuję, płynie łódka",
    "un café…” dit-il, été à l’œuvre",
    "Привет, мир! И да.",
    "Ελλάδα και Κύπρος",
    "나는 학생이다",
    "日本語のテキストです",
    "çok güzel ışık",
    "naïve – ‘quoted’",
)


def misread(text: str, table: str) -> str:
    return "".join(bytes([byte]).decode(table, "ignore") or chr(byte) for byte in text.encode())


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("text", TEXTS)
def test_utf8_that_was_read_as_another_table_comes_back(text: str, table: str) -> None:
    assert repair(misread(text, table)) == text


@pytest.mark.parametrize("text", TEXTS)
def test_utf8_that_was_misread_twice_comes_back(text: str) -> None:
    assert repair(misread(misread(text, "cp1252"), "cp1252")) == text


@pytest.mark.parametrize("before", ["groß", "Straße", "è", "Ö", "Привет", "ł", "Ελλάδα", "나", "word", "Ú", "ÿ", "ü"])
def test_a_c1_control_is_the_character_of_windows_1252_behind_every_letter(before: str) -> None:
    """In UTF-8, some would be letters of N'Ko, Hebrew or Arabic together with the letter before them."""
    for byte in range(0x80, 0xA0):
        expected = bytes([byte]).decode("cp1252", "ignore") or chr(byte)
        assert repair(f"a {before}{chr(byte)} b") == f"a {before}{expected} b"


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("\x84Er weiß\x93 \x96 so heißt der Film", "„Er weiß“ – so heißt der Film"),
        ("Vu au café\x85\x94", "Vu au café…”"),
        ("Ã¼ber groß\x93", "über groß“"),
        ("StraГџe", "Straße"),
        ("itвЂ™s", "it’s"),
        ("Itâ€™s", "It’s"),
    ],
)
def test_repairs(line: str, right: str) -> None:
    assert repair(line) == right


@pytest.mark.parametrize(
    "line",
    [
        "PAMÄŤ",
        "ÎŞI",
        "câştig",
        "DÉJÀ… «Oui»",
        "un café…” dit",
        "Ті, що",
        "Ті",
        "Рік",
        "Україні є їжа, історії",
        "СССР»",
        "В\u00a0лес",
        "«Т»",
        "píše žák",
        "„Łódź”",
        "groß“",
        "Ça coûte 5 €…",
        "são Ãguas",
        "IŞIK ÜNİVERSİTESİ",
        "ДЕВ’ЯТЬ",
        "ΑΘΗΝΑ «Ώ»",
    ],
)
def test_sound_text_stays(line: str) -> None:
    assert repair(line) == line


def test_text_to_translate_is_repaired_as_training_text_is() -> None:
    assert AS_IT_IS.tidy("Das ist groß\x93,\x85  schÃ¶n\x81") == "Das ist groß“,… schön"
