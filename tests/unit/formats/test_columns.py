"""Columns are found by their names, or the message lists the names. A header is not a pair."""

import json
from collections.abc import Callable

import polars as pl
import pytest

from nmt_core.errors import DataError

Reader = Callable[..., pl.DataFrame]

FOUND = {
    "id source target": "source target",
    "src mt ref": "src ref",
    "src tgt ref mt": "src ref",
    "lp src mt ref raw annotators": "src ref",
    "src pe mt": "src pe",
    "sentence1 sentence2 score": "sentence1 sentence2",
    "sent_1 sent_2": "sent_1 sent_2",
    "text_a text_b": "text_a text_b",
    "id URL sentence_eng_Latn sentence_deu_Latn": "sentence_eng_Latn sentence_deu_Latn",
    "deu_Latn eng_Latn fra_Latn": "eng_Latn deu_Latn",
    "german english": "english german",
    "English German Attribution": "English German",
    "english non_english": "english non_english",
    "source_lang target_lang source_text target_text": "source_text target_text",
    "target source": "source target",
    "en de source": "en de",
    "id de-AT en-GB": "en-GB de-AT",
    "text_en text_de score_en score_de": "text_en text_de",
    "src_en tgt_de": "src_en tgt_de",
    "sourceString targetString": "sourceString targetString",
    "Source Target": "Source Target",
    "src trg alignment": "src trg",
    "source_sentence target_sentence source_sentence_lid": "source_sentence target_sentence",
    "source translation": "source translation",
    "input output": "input output",
    "de source": "source de",
    "source target_text": "source target_text",
    "en_text de_text en_id": "en_text de_text",
    "source_sentence mt reference_translation": "source_sentence reference_translation",
    "text translation": "text translation",
    "Deutsch English": "English Deutsch",
}


@pytest.mark.parametrize("names", FOUND)
@pytest.mark.parametrize("name", ["a.jsonl", "a.tsv", "a.csv"])
def test_columns_are_found_by_their_names(names: str, name: str, read_both: Reader) -> None:
    columns = names.split()
    notes: list[str] = []
    if name == "a.jsonl":
        content = json.dumps({column: f"text of {column}" for column in columns}) + "\n"
    else:
        mark = "\t" if name == "a.tsv" else ","
        content = f"{mark.join(columns)}\n{mark.join(f'text of {column}' for column in columns)}\n"
    table = read_both(name, content.encode(), note=notes.append)

    source, target = FOUND[names].split()
    assert table.rows() == [(f"text of {source}", f"text of {target}", 1, None, None)]
    assert notes[0].startswith(f"took {source!r} as source and {target!r} as target")
    assert all(column in notes[0] for column in columns)


UNCLEAR = [
    "source target reference",
    "title_en title_de text_en text_de",
    "index original translation scores mean z_scores",
    "src tgt mt score",
    "id text translated_text",
    "source_id lang extra_column",
]


@pytest.mark.parametrize("names", UNCLEAR)
@pytest.mark.parametrize("name", ["a.jsonl", "a.tsv"])
def test_columns_that_could_be_others_are_listed(names: str, name: str, read_both: Reader) -> None:
    columns = names.split()
    content = json.dumps(dict.fromkeys(columns, "text")) if name == "a.jsonl" else "\t".join(columns) + "\n1\t2\t3\n"
    with pytest.raises(DataError, match="set `source_column` and `target_column`") as caught:
        read_both(name, content.encode())
    assert all(column in str(caught.value) for column in columns[:2])


@pytest.mark.parametrize("first", ["No\tJa", "Name\tName", "Source code\tQuelltext", "It\tEs", "sentence\tSatz"])
def test_words_that_could_be_names_are_a_pair(first: str, read_both: Reader) -> None:
    table = read_both("a.tsv", f"{first}\nA dog.\tEin Hund.\n".encode())

    assert table.rows()[0][:2] == tuple(first.split("\t"))


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("{0}\tA dog {0}.\t7{0}\tEin Hund {0}.", (1, 3)),
        ("0.9{0}\tA dog {0}.\tEin Hund {0}.\thttp://a.example/{0}", (1, 2)),
        ("http://a/{0}\thttp://b/{0}\tA dog {0}.\tEin Hund {0}.\t0.5", (2, 3)),
        ("A dog {0}.\tEin Hund {0}.\tmore text {0}\t5", (0, 1)),
        ("en\tde\tA dog {0}.\tEin Hund {0}.", (2, 3)),
        ("{0}\t7{0}", (0, 1)),
    ],
)
def test_numbers_and_addresses_are_no_text_of_a_table_without_a_header(
    row: str, expected: tuple[int, int], read_both: Reader
) -> None:
    lines = [row.format(number) for number in range(5)]
    table = read_both("a.tsv", "\n".join(lines).encode())

    if "\tde\t" in row:  # codes of both languages are the names of columns, in the first row alone
        table = table.tail(4)
        lines = lines[1:]
        assert table.height == 4
        expected = (0, 1)
    wanted = [tuple(line.split("\t")[place] for place in expected) for line in lines]
    assert table.select("source", "target").rows() == wanted


def test_a_table_of_numbers_is_refused(read_both: Reader) -> None:
    with pytest.raises(DataError, match=r"no two columns of text: the first row holds 1: 1; 2: A dog.; 3: 0.5"):
        read_both("a.tsv", b"1\tA dog.\t0.5\n" * 3)


def test_numbers_in_json_are_no_text(read_both: Reader) -> None:
    record = json.dumps({"id": 7, "en": "a", "de": "A", "target": "B"}).encode()

    assert read_both("a.jsonl", record).rows()[0][:2] == ("a", "A")
    with pytest.raises(DataError, match="no text is in id"):
        read_both("a.jsonl", record.replace(b"target", b"x"), target_language="id")


@pytest.mark.parametrize(
    ("columns", "language", "expected"),
    [
        ("en zho_Hans zho_Hant", "zh_Hant", "zho_Hant"),
        ("en pt pt_BR", "pt", "pt"),
        ("en pt pt_BR", "pt_BR", "pt_BR"),
        ("eng_Latn nob_Latn nno_Latn", "nb", "nob_Latn"),
        ("en no", "nb", "no"),
        ("en tgl_Latn", "fil", "tgl_Latn"),
        ("en chinese_simplified", "zh", "chinese_simplified"),
    ],
)
def test_scripts_regions_and_macro_languages(columns: str, language: str, expected: str, read_both: Reader) -> None:
    record = json.dumps({column: column for column in columns.split()}).encode()

    assert read_both("a.jsonl", record, target_language=language).rows()[0][1] == expected


def test_two_scripts_of_a_language_are_refused_unless_one_is_named(read_both: Reader) -> None:
    record = json.dumps({"en": "a", "zho_Hans": "b", "zho_Hant": "c"}).encode()
    with pytest.raises(DataError, match="several columns may hold en and zh: en, zho_Hans, zho_Hant"):
        read_both("a.jsonl", record, target_language="zh")
