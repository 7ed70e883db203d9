"""PO and MO: entries, plural forms, escapes and charsets."""

import struct
from collections.abc import Callable, Mapping

import polars as pl
import pytest

from nmt_core.errors import DataError

Pair = tuple[str, str]
Reader = Callable[..., pl.DataFrame]

HEADER = 'msgid ""\nmsgstr ""\n"Language: de\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'
ENTRIES = r"""# A translator's comment
#: file.c:5
#, c-format
msgid "Press \"%s\"\n"
msgstr ""
"Drücken Sie "
"\"%s\"\n"

msgctxt "menu"
msgid "Open"
msgstr "Öffnen"
#, fuzzy, c-format
#| msgid "Old"
msgid "Close"
msgstr "Offen"

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d Datei"
msgstr[1] "%d Dateien"

msgid "Later"
msgstr ""
#~ msgid "Gone"
#~ msgstr "Weg"
"""


def quoted(text: str) -> str:
    escaped = (
        text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    )
    return f'"{escaped}"'


def po(pairs: list[Pair], header: str = HEADER) -> str:
    return header + "\n".join(f"msgid {quoted(source)}\nmsgstr {quoted(target)}\n" for source, target in pairs)


def mo(entries: Mapping[str, str], order: str = "<", charset: str = "utf-8", header: str = "") -> bytes:
    header = f"{header}Language: de\nContent-Type: text/plain; charset={charset}\n"
    items = sorted(
        (key.encode(charset), value.encode(charset)) for key, value in ({"": header} | dict(entries)).items()
    )
    start = 28 + 16 * len(items)
    tables, strings = [b"", b""], b""
    for side in (0, 1):
        for item in items:
            tables[side] += struct.pack(f"{order}2I", len(item[side]), start + len(strings))
            strings += item[side] + b"\0"
    head = struct.pack(f"{order}7I", 0x950412DE, 0, len(items), 28, 28 + 8 * len(items), 0, 0)
    return head + tables[0] + tables[1] + strings


def rows_of(table: pl.DataFrame) -> list[tuple[str, ...]]:
    return table.select("source", "target", "fault", "value").rows()


def good(*pairs: Pair) -> list[tuple[str | None, ...]]:
    return [(*pair, None, None) for pair in pairs]


def test_every_entry_is_a_row(read_both: Reader) -> None:
    assert rows_of(read_both("a", (HEADER + ENTRIES).encode())) == [
        *good(('Press "%s"', 'Drücken Sie "%s"'), ("Open", "Öffnen")),
        ("Close", "Offen", "fuzzy", None),
        *good(("%d file", "%d Datei"), ("%d files", "%d Dateien")),
        ("Later", "", "untranslated", None),
        ("Gone", "Weg", "obsolete", None),
    ]


@pytest.mark.parametrize("gap", ["\n", ""])
def test_what_an_obsolete_entry_once_translated_is_a_comment(gap: str, read_both: Reader) -> None:
    obsolete = '#, fuzzy\n#~| msgctxt "old"\n#~| msgid "Was"\n#~ msgid "Gone"\n#~ msgstr "Weg"\n'
    content = po([("a", "A")]) + gap + obsolete

    assert rows_of(read_both("a", content.encode())) == [*good(("a", "A")), ("Gone", "Weg", "obsolete", None)]
    bare = po([("a", "A")]) + gap + obsolete.removeprefix("#, fuzzy\n")
    assert rows_of(read_both("a", bare.encode())) == [*good(("a", "A")), ("Gone", "Weg", "obsolete", None)]


def test_awkward_text(read_both: Reader, awkward: list[Pair]) -> None:
    pairs = [*awkward, ("tab\there", "two\nlines\\n"), ("r\rr", "\\")]

    assert rows_of(read_both("a", po(pairs).encode())) == good(*pairs)
    assert rows_of(read_both("a", po(pairs).replace("\n", "\r\n").encode())) == good(*pairs)
    assert sorted(rows_of(read_both("a", mo(dict(pairs))))) == sorted(good(*pairs))


def test_escapes_by_number(read_both: Reader) -> None:
    assert rows_of(read_both("a", rb'msgid "\101\x42\q"' + b'\nmsgstr "x"\n')) == good(("ABq", "x"))


def test_the_language_of_the_header_says_the_direction(read_both: Reader) -> None:
    content = po([("a", "A")]).encode()

    assert rows_of(read_both("a", content, source_language="de", target_language="en")) == good(("A", "a"))
    assert rows_of(read_both("a", content, target_language="ko")) == [("a", "A", "missing_language", "de")]


def test_another_charset_is_honoured(read_both: Reader) -> None:
    pairs = [(f"price {number}", f"größer {number} €") for number in range(2000)]
    header = HEADER.replace("UTF-8", "ISO-8859-15")

    assert rows_of(read_both("a", po(pairs, header).encode("ISO-8859-15"))) == good(*pairs)
    assert sorted(rows_of(read_both("a", mo(dict(pairs), charset="ISO-8859-15")))) == sorted(good(*pairs))


def test_an_unknown_charset_is_refused(read_both: Reader) -> None:
    with pytest.raises(DataError, match="a: unknown charset 'x-klingon'"):
        read_both("a", po([("a", "A")], HEADER.replace("UTF-8", "x-klingon")).encode())


def test_a_byte_that_is_not_in_the_charset_costs_its_entry(read_both: Reader) -> None:
    pairs = [("a", "x"), ("b", "ä"), ("c", "y")]
    rows = rows_of(read_both("a", po(pairs, HEADER.replace("UTF-8", "euc-jp")).encode("latin-1")))

    assert [row[2] for row in rows] == [None, "invalid_utf8", None]


def test_faults_are_of_their_entry(read_both: Reader) -> None:
    content = (
        po([("a", "A"), ("b", "FF"), ("c", "C")]).encode().replace(b"FF", b"\xff")
        + b'\nmsgid "d"\nnonsense\nmsgstr "D"\n'
    )

    assert [row[2:] for row in rows_of(read_both("a", content))] == [
        (None, None),
        ("invalid_utf8", "byte 9: ff"),
        (None, None),
        ("invalid_po", "line 16"),
    ]


@pytest.mark.parametrize("order", ["<", ">"])
def test_mo_contexts_plurals_and_both_byte_orders(order: str, read_both: Reader) -> None:
    content = mo({"menu\x04Open": "Öffnen", "%d file\0%d files": "%d Datei\0%d Dateien", "Later": ""}, order)

    expected = good(("Open", "Öffnen"), ("%d file", "%d Datei"), ("%d files", "%d Dateien"))
    assert sorted(rows_of(read_both("a", content)), key=str) == sorted(
        [*expected, ("Later", "", "untranslated", None)], key=str
    )


PLURALS: dict[str, tuple[str, list[str], list[Pair]]] = {
    "one form": ("nplurals=1; plural=0;", ["x"], [("one", "x"), ("many", "x")]),
    "two": ("nplurals=2; plural=(n != 1);", ["x", "y"], [("one", "x"), ("many", "y")]),
    "three": (
        "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);",
        ["x", "y", "z"],
        [("one", "x"), ("many", "y"), ("many", "z")],
    ),
    "the one is not the first": (
        "nplurals=4; plural=(n%100==1 ? 1 : n%100==2 ? 2 : n%100==3 || n%100==4 ? 3 : 0);",
        ["w", "x", "y", "z"],
        [("many", "w"), ("one", "x"), ("many", "y"), ("many", "z")],
    ),
    "a wrong formula": ("nplurals=2; plural=n???;", ["x", "y"], [("one", "x"), ("many", "y")]),
    "no formula": ("", ["x", "y"], [("one", "x"), ("many", "y")]),
}


@pytest.mark.parametrize("name", PLURALS)
def test_every_form_of_a_plural_is_in_a_pair(name: str, read_both: Reader) -> None:
    rule, forms, expected = PLURALS[name]
    header = HEADER.replace('"Content', f'"Plural-Forms: {rule}\\n"\n"Content') if rule else HEADER
    made = "".join(f'msgstr[{number}] "{form}"\n' for number, form in enumerate(forms))
    content = f'{header}msgid "one"\nmsgid_plural "many"\n{made}'

    assert rows_of(read_both("a", content.encode())) == good(*expected)
    fuzzy = content.replace('msgid "one"', '#, fuzzy\nmsgid "one"')
    assert rows_of(read_both("a", fuzzy.encode())) == [(*pair, "fuzzy", None) for pair in expected]
    compiled = mo({"one\0many": "\0".join(forms)}, header=f"Plural-Forms: {rule}\n" if rule else "")
    assert rows_of(read_both("a", compiled)) == good(*expected)


def test_plural_forms_without_a_translation_are_counted(read_both: Reader) -> None:
    content = f'{HEADER}msgid "one"\nmsgid_plural "many"\nmsgstr[0] "x"\nmsgstr[1] ""\n'

    assert rows_of(read_both("a", content.encode())) == [*good(("one", "x")), ("many", "", "untranslated", None)]


def test_a_truncated_mo_file_is_refused(read_both: Reader) -> None:
    content = mo({f"message {number}": "Nachricht" for number in range(100)})
    for kept in (10, 500, len(content) - 20):
        with pytest.raises(DataError, match="the MO file is truncated or damaged"):
            read_both("a", content[:kept])


def test_an_mo_text_that_is_not_in_its_charset_is_a_fault(read_both: Reader) -> None:
    content = mo({"a": "A", "b": "BBB"}).replace(b"BBB", b"B\xffB")

    assert [row[2:] for row in rows_of(read_both("a", content))] == [(None, None), ("invalid_utf8", "byte 2: ff")]
