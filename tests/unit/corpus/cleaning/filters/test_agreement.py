"""Filters that compare both sides: copies, placeholders, tags, numbers, addresses and marks at the end."""

from collections.abc import Callable

import pytest

Verdict = Callable[..., tuple[str | None, str | None]]


def test_copies_except_for_case_and_punctuation(verdict: Verdict) -> None:
    assert verdict(("Berlin, 1984!", "berlin 1984")) == ("copy", "target")
    assert verdict(("Berlin 1984", "Berlin 1984"), drop_copies=False) == (None, None)


def test_one_word_may_be_the_same_in_both_languages(verdict: Verdict) -> None:
    for word in ("Archive", "Menu...", "Debian"):
        assert verdict((word, word)) == (None, None)
    assert verdict(("图书馆在哪里", "图书馆在哪里")) == ("copy", "target"), "here a letter is a word"


def test_near_copies(verdict: Verdict) -> None:
    half = ("Open the file menu now please", "Open the file Menü now bitte")

    assert verdict(("The Clock can show seconds, too.", "The Uhr can show seconds, too.")) == ("near_copy", "0.83")
    assert verdict(("one two three four five", "one two three four five six seven eight")) == ("near_copy", "1.0")
    assert verdict(half) == (None, None)
    assert verdict(half, max_copied_share=0.6) == ("near_copy", "0.67")
    assert verdict(("Open Office, KDE and Linux", "Open Office, KDE und Linux")) == (None, None)  # 0.8
    short = ("Mr Smith visited Rome", "Mr Smith visited Roma")
    assert verdict(short, max_copied_share=0.7) == (None, None)  # too short to tell
    assert verdict(short, max_copied_share=0.7, min_copied_words=4) == ("near_copy", "0.75")
    assert verdict(("one two three four five", "One two three four five six"), max_copied_share=1) == (None, None)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("%s of %s saved", "%2$s: %1$s gespeichert"),
        ("%d files in %(folder)s", "%d Dateien in %(folder)s"),
        ("Hello {name}, see ${path}", "Hallo {name}, siehe ${path}"),
        ("100 % sure", "100%"),
        ("I am 50 years old {or so}", "Ich bin 50 Jahre alt {or so}"),
        ("at %L of old %-formatting here", "bei %2$L alter %-Formatierung hier"),
    ],
)
def test_placeholders_that_agree(verdict: Verdict, source: str, target: str) -> None:
    assert verdict((source, target), min_letter_share=0) == (None, None)


@pytest.mark.parametrize(
    ("source", "target", "value"),
    [
        ("%s saved the file", "Die Datei ist gespeichert", "%s"),
        ("%s and %s", "%s und noch eins", "%s %s %s"),
        ("Hello {name}, dear", "Hallo {Name}, lieber", "{Name} {name}"),
        ("Player %1 moves", "Spieler 1 zieht", "%1"),
        ("Set %5.2f volts", "Setze %5.1f Volt", "%5.1f %5.2f"),
    ],
)
def test_placeholders_that_differ(verdict: Verdict, source: str, target: str, value: str) -> None:
    assert verdict((source, target)) == ("placeholders_differ", value)
    assert verdict((source, target), placeholders_must_match=False) == (None, None)


def test_tags(verdict: Verdict) -> None:
    kept = [
        ("Press <b>Start</b> now", "Jetzt <B>Start</B> drücken"),
        ("copy <file> there", "kopiere <Datei> dahin"),  # a placeholder for a human
        ('See <a href="x">here</a>', 'Siehe <a href="y">hier</a>'),
        ("if a < b and c > d", "wenn a kleiner als b"),
    ]

    assert [verdict(pair) for pair in kept] == [(None, None)] * 4
    assert verdict(("Press <b>Start</b> now", "Jetzt Start drücken")) == ("tags_differ", "</b")
    assert verdict(("A line<br/>and more", "Eine Zeile und mehr")) == ("tags_differ", "<br")
    assert verdict(("A line<br/>and more", "Eine Zeile und mehr"), tags_must_match=False) == (None, None)


def test_numbers_must_match_only_on_request(verdict: Verdict) -> None:
    pair = ("He is 41 years old.", "Er ist 14 Jahre alt.")
    other = ("He is 41 years old.", "Er ist 42 Jahre alt.")

    assert verdict(other) == (None, None)
    assert verdict(other, numbers_must_match=True) == ("numbers_differ", "1 2")
    assert verdict(pair, numbers_must_match=True) == (None, None)  # the digits are the same
    written = ("It cost 1,000.50 on 2024-12-31.", "Am 31.12.2024 kostete es 1.000,50.")
    assert verdict(written, numbers_must_match=True, min_letter_share=0) == (None, None)


def test_addresses_must_match_only_on_request(verdict: Verdict) -> None:
    pair = ("See https://a.org/x for that.", "Siehe https://b.org/x dafür.")

    assert verdict(pair) == (None, None)
    assert verdict(pair, addresses_must_match=True) == ("addresses_differ", "https://a.org/x https://b.org/x")
    same = ("Mail me@a.org or see www.a.org.", "Auf www.A.org, oder an me@a.org schreiben")
    assert verdict(same, addresses_must_match=True) == (None, None)


def test_end_marks_must_match_only_on_request(verdict: Verdict) -> None:
    pair = ("He said: “Go away!”", "Er sagte: Geh weg")

    assert verdict(pair) == (None, None)
    assert verdict(pair, end_marks_must_match=True) == ("end_marks_differ", "source only")
    assert verdict(pair[::-1], "de-en", end_marks_must_match=True) == ("end_marks_differ", "target only")
    assert verdict(("Where is he?", "어디 있습니까."), "en-ko", end_marks_must_match=True) == (None, None)


def test_brackets_must_match_only_on_request(verdict: Verdict) -> None:
    pair = ("one (or two) of them", "einer (oder zwei davon")

    assert verdict(pair) == (None, None)
    assert verdict(pair, brackets_must_match=True) == ("brackets_differ", "target")
    assert verdict(("a) one of them", "a) einer davon"), brackets_must_match=True) == (None, None)
    assert verdict(("one (or two)", "하나（또는 둘）"), "en-ko", brackets_must_match=True) == (None, None)


@pytest.mark.parametrize("digits", ["١٢", "۱۲", "१२", "১২", "๑๒", "１２"])
def test_digits_of_any_script_are_compared_by_their_values(verdict: Verdict, digits: str) -> None:
    other = {"numbers_must_match": True, "min_script_share": 0, "min_language_probability": 0}

    assert verdict(("It costs 12 euros.", f"Es kostet {digits} Euro."), **other) == (None, None)
    assert verdict(("It costs 13 euros.", f"Es kostet {digits} Euro."), **other) == ("numbers_differ", "2 3")
    assert verdict(("It costs 12 euros.", "Es kostet ¹² Euro."), **other) == ("numbers_differ", "1 2")
