"""TSV and CSV: columns, headers, quotes and separators."""

import csv
import io
import random
from collections.abc import Callable, Sequence

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmt_core.errors import DataError

Pair = tuple[str, str]
Reader = Callable[..., pl.DataFrame]


def rows_of(table: pl.DataFrame) -> list[tuple[str, ...]]:
    return table.select("source", "target", "fault", "value").rows()


def good(*pairs: Pair) -> list[tuple[str | None, ...]]:
    return [(*pair, None, None) for pair in pairs]


def write_csv(rows: Sequence[Sequence[str]], delimiter: str = ",") -> bytes:
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=delimiter).writerows(rows)
    return file.getvalue().encode()


def test_quotes_in_tsv_are_data(read_both: Reader, awkward: list[Pair]) -> None:
    content = "".join(f"{source}\t{target}\r\n" for source, target in [*awkward, ('"open', '"a"')])

    assert rows_of(read_both("a.tsv", content.encode())) == good(*awkward, ('"open', '"a"'))


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ({}, ("a", "A")),
        ({"source_language": "de", "target_language": "en"}, ("A", "a")),
        ({"source_column": "4", "target_column": "2"}, ("A", "a")),
        ({"source_column": "note", "target_column": "id"}, ("n", "7")),
        ({"source_column": "note", "target_column": "1"}, ("n", "7")),
    ],
)
@pytest.mark.parametrize(("name", "delimiter"), [("a.tsv", "\t"), ("a.csv", ","), ("a.csv", ";"), ("a.csv", "\t")])
def test_columns_by_language_number_and_name(
    name: str, delimiter: str, layout: dict[str, str], expected: Pair, read_both: Reader
) -> None:
    content = delimiter.join(["id", "en-US", "note", "deu"]) + "\n" + delimiter.join(["7", "a", "n", "A"]) + "\n"

    assert rows_of(read_both(name, content.encode(), **layout)) == good(expected)


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_without_a_header_the_first_two_columns_are_the_sides(name: str, read_both: Reader) -> None:
    content = b"a\tA\tmore\nb\tB\nEnglish\tde facto\n".replace(b"\t", b"\t" if name == "a.tsv" else b",")

    assert rows_of(read_both(name, content)) == good(("a", "A"), ("b", "B"), ("English", "de facto"))


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_a_column_that_is_not_there_is_refused_with_those_that_are(name: str, read_both: Reader) -> None:
    content = b"id\tx\n1\t2\n".replace(b"\t", b"\t" if name == "a.tsv" else b",")
    with pytest.raises(DataError, match=rf"{name}: no column 'text': there are id, x; correct the name"):
        read_both(name, content, source_column="text")
    with pytest.raises(DataError, match="en and de cannot be told apart among id, x"):
        read_both(name, content, source_column="2", target_column="x")


def test_a_word_that_is_the_code_of_a_language_is_no_header(read_both: Reader) -> None:
    assert rows_of(read_both("a.tsv", b"No\tNei\n", target_language="no")) == good(("No", "Nei"))


CSV = {
    "commas in the text": (b"Hello, world;Hallo, Welt\nNo;Nein\n", [("Hello, world", "Hallo, Welt"), ("No", "Nein")]),
    "in every line": (b"Hello, world;Hallo, Welt\n" * 3, [("Hello, world", "Hallo, Welt")] * 3),
    "in one line": (b"Hello, world;Hallo, Welt\n", [("Hello, world", "Hallo, Welt")]),
    "without a space": (b"a;1,5\nb;2\nc;3\n", [("a", "1,5"), ("b", "2"), ("c", "3")]),
    "beside tabs": (b"a, b\tA, B\nc\tC\n", [("a, b", "A, B"), ("c", "C")]),
    "semicolons in the text": (b"a; b,A; B\nc,C\n", [("a; b", "A; B"), ("c", "C")]),
    "a header": (b"en;de\nHello, world;Hallo, Welt\n", [("Hello, world", "Hallo, Welt")]),
    "quotes": (b'"Hello, you";"Hallo, du"\n"a\nb";"A\nB"\n', [("Hello, you", "Hallo, du"), ("a\nb", "A\nB")]),
    "quotes and commas": (b'"a;b","A;B"\n"c\nd;e",C\n', [("a;b", "A;B"), ("c\nd;e", "C")]),
    "a cut last line": (b"a;A\nb, b, b;B", [("a", "A"), ("b, b, b", "B")]),
    "no mark that all have": (b"a,A\nx\ny\nb,B\n", [("a", "A"), ("x", ""), ("y", ""), ("b", "B")]),
}


@pytest.mark.parametrize("name", CSV)
def test_the_mark_between_columns_is_the_one_that_all_lines_agree_on(name: str, read_both: Reader) -> None:
    content, expected = CSV[name]

    assert read_both("a.csv", content).select("source", "target").rows() == expected


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(",;\t"), st.integers(0, 2**32))
def test_the_mark_is_found_in_text_full_of_others(read_both: Reader, mark: str, seed: int) -> None:
    draw = random.Random(seed)
    others = [f"{other} " for other in ",;" if other != mark] + [" "]

    def sentence() -> str:
        return "".join(
            draw.choice(["Haus", "und", "Hof", "x"]) + draw.choice(others) for _ in range(draw.randint(1, 9))
        )

    pairs = [(sentence() + "a", sentence() + "b") for _ in range(draw.randint(1, 150))]
    assert rows_of(read_both("a.csv", "".join(f"{s}{mark}{t}\n" for s, t in pairs).encode())) == good(*pairs)


def test_a_row_without_a_column_is_a_fault(read_both: Reader) -> None:
    faulty = ("lone", "", "missing_column", "1")
    empty = ("", "", "missing_column", "1")

    assert rows_of(read_both("a.tsv", b"a\tA\nlone\n\nb\tB\n")) == [*good(("a", "A")), faulty, empty, *good(("b", "B"))]
    assert rows_of(read_both("a.csv", b"a,A\nlone\nb,B\n")) == [*good(("a", "A")), faulty, *good(("b", "B"))]


def test_faults_of_lines_stay(read_both: Reader) -> None:
    content = b"a\tA\n\xff\tB\n" + b"x" * 2000 + b"\nc\tC\n"

    for name, table in (("a.tsv", content), ("a.csv", content.replace(b"\t", b","))):
        faults = read_both(name, table, max_line_bytes=1000).select("fault", "value").rows()
        assert faults == [(None, None), ("invalid_utf8", "byte 1: ff"), ("too_long_line", "2000"), (None, None)]


def test_csv_fields_in_quotes_hold_anything(read_both: Reader, awkward: list[Pair]) -> None:
    pairs = [*awkward, ("a,b", 'say "hi"'), ("two\nlines", "tab\there"), ("r\rr", "")]

    assert rows_of(read_both("a.csv", write_csv([("en", "de"), *pairs]))) == good(*pairs)


@pytest.mark.parametrize("lines_after", [5, 300, 10_500])
def test_a_quote_without_its_partner_costs_one_row(lines_after: int, read_both: Reader) -> None:
    after = "".join(f"s{number},t{number}\n" for number in range(lines_after))
    table = read_both("a.csv", f'a,A\n"open,B\n{after}'.encode())

    assert table.height == lines_after + 2
    assert table.row(1, named=True) | {"value": ""} == {
        "source": '"open,B', "target": "", "line": 2, "fault": "invalid_csv", "value": "",
    }  # fmt: skip
    assert rows_of(table[2:]) == good(*((f"s{number}", f"t{number}") for number in range(lines_after)))


def test_many_quotes_without_partners_cost_a_row_each(read_both: Reader) -> None:
    table = read_both("a.csv", b"a,A\n" + b'x,"y" z\n' * 50 + b"b,B\n")

    assert table["fault"].to_list() == [None, *["invalid_csv"] * 50, None]


def test_an_open_quote_does_not_swallow_a_faulty_line(read_both: Reader) -> None:
    faults = read_both("a.csv", b'a,A\n"open,B\n\xff,C\nd,D\n')["fault"].to_list()

    assert faults == [None, "invalid_csv", "invalid_utf8", None]


@pytest.mark.parametrize("lines", [2, 101, 5_000])
def test_a_record_of_many_lines_is_one_row(lines: int, read_both: Reader) -> None:
    text = "\n".join(f"line {number}, and" for number in range(lines))

    assert rows_of(read_both("a.csv", write_csv([("a", "A"), (text, "B"), ("c", "C")]))) == good(
        ("a", "A"), (text, "B"), ("c", "C")
    )


@pytest.mark.parametrize(("bad", "fault"), [(b"\xff", "invalid_utf8"), (b"\0", "null_byte")])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_faulty_line_of_a_record_makes_one_row(place: int, bad: bytes, fault: str, read_both: Reader) -> None:
    lines = [b'"one', b"two", b'three",B']
    lines[place] = lines[place].replace(b"o", bad).replace(b"th", bad)
    table = read_both("a.csv", b"a,A\n" + b"\n".join(lines) + b'\nc,C\n"d\n",D\n')

    assert table["fault"].to_list() == [None, fault, None, None]
    assert rows_of(table[2:]) == good(("c", "C"), ("d\n", "D"))


FIELD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=10)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(FIELD, FIELD), min_size=1, max_size=20))
def test_any_csv_is_read_back(read_both: Reader, pairs: list[Pair]) -> None:
    file = io.StringIO(newline="")
    csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([("en", "de"), *pairs])

    expected = [tuple(field.replace("\r\n", "\n") for field in pair) for pair in pairs]
    assert rows_of(read_both("a.csv", file.getvalue().encode())) == good(*expected)  # type: ignore[arg-type]


def test_a_header_of_csv_that_is_not_utf8_is_the_header(read_both: Reader) -> None:
    content = "Größe,de,en\n1,A,a\n".encode("latin-1")

    assert read_both("a.csv", content).select("source", "target", "fault").rows() == [("a", "A", None)]


@pytest.mark.parametrize("first", [b"a\xff\rb,c\n", b"\xff\r\r,c\n", b'"a\xff\r",c\rd\n', b"\r\xff\n"])
def test_a_first_record_that_is_neither_utf_8_nor_csv_is_one_faulty_row(first: bytes, read_both: Reader) -> None:
    found = read_both("a.csv", first + b"d,e\nf,g\n")
    assert found["fault"].null_count() == found.height - 1
    assert found.filter(pl.col("fault").is_null()).select("source", "target").rows() == [("d", "e"), ("f", "g")]


def written_by_excel(pairs: Sequence[Pair]) -> str:
    """A table as Excel saves it: quotes around fields with a quote, a tab, a line end or a comma."""

    def field(text: str) -> str:
        return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in '",\t\n') else text

    return "".join("\t".join(map(field, pair)) + "\r\n" for pair in pairs)


QUOTED = [
    ('He said "hi" to me.', 'Er sagte "hi".'),
    ("two\nlines", "zwei\nZeilen"),
    ("Yes, sir", "Ja, gern"),
    ("plain", "einfach"),
    ("a\ttab", "ein Tabulator"),
]


@pytest.mark.parametrize("first", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("kind", ["pandas", "Excel", "all"])
@pytest.mark.parametrize("before", [0, 2000])
def test_quotes_in_tsv_as_pandas_and_excel_write_them(first: int, kind: str, before: int, read_both: Reader) -> None:
    pairs = [("en", "de"), *[("plain text", "einfach")] * before, *QUOTED[first:], *QUOTED[:first]]
    if kind == "Excel":
        content = written_by_excel(pairs)
    else:
        file = io.StringIO(newline="")
        quoting = csv.QUOTE_MINIMAL if kind == "pandas" else csv.QUOTE_ALL
        csv.writer(file, delimiter="\t", quoting=quoting, lineterminator="\n").writerows(pairs)
        content = file.getvalue()

    assert rows_of(read_both("a.tsv", content.encode())) == good(*pairs[1:])


@pytest.mark.parametrize(
    "pairs",
    [
        [('"Hello"', '"Hallo"'), ("Yes", "Ja")],
        [('"Hello," he said', '"Hallo"'), ('"a ""b"""', "c")],
        [('5" pipe', '"a ""b"""')],
        [('"open', "x"), ('close"', "y")],
        [('"', '"'), ("a", "b")],
        [('"a', 'b"'), ('"c', 'd"')],
        [("a", '"b'), ('c"', "d")],
    ],
)
def test_quotes_in_tsv_that_no_program_writes_are_data(pairs: list[Pair], read_both: Reader) -> None:
    content = "".join("\t".join(pair) + "\n" for pair in pairs)

    assert rows_of(read_both("a.tsv", content.encode())) == good(*pairs)


@pytest.mark.parametrize("names", ['"en"\t"de"', '"id"\t"source"\t"target"', '"SOURCE"\t"n"\t"Target"'])
def test_names_of_columns_may_be_quoted_where_text_is_not(names: str, read_both: Reader) -> None:
    places = [place for place, name in enumerate(names.split("\t")) if "n" != name.strip('"') != "id"]
    rows = [["7"] * (names.count("\t") + 1) for _ in range(2)]
    for row, pair in zip(rows, [("A house", "Ein Haus"), ("Two", "Zwei")], strict=True):
        row[places[0]], row[places[1]] = pair
    content = "\n".join([names, *("\t".join(row) for row in rows)]) + "\n"

    assert rows_of(read_both("a.tsv", content.encode())) == good(("A house", "Ein Haus"), ("Two", "Zwei"))


def test_a_first_pair_in_quotes_is_text(read_both: Reader) -> None:
    content = '"source"\t"Ein Haus"\nTwo\tZwei\n'

    assert rows_of(read_both("a.tsv", content.encode())) == good(('"source"', '"Ein Haus"'), ("Two", "Zwei"))


WORDS = (
    st.text(st.sampled_from('ab ",\n\t'), max_size=8)
    .map(lambda text: f"x{text}x")
    .filter(
        lambda text: not {"\n", "\t"} <= set(text)  # two lines of as many fields as the others, whatever the quotes say
    )
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=20))
def test_any_tsv_of_pandas_is_read_back(read_both: Reader, pairs: list[Pair]) -> None:
    file = io.StringIO(newline="")
    csv.writer(file, delimiter="\t", lineterminator="\n").writerows([("en", "de"), *pairs])

    assert rows_of(read_both("a.tsv", file.getvalue().encode())) == good(*pairs)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=20))
def test_any_tsv_without_quoting_is_read_back(read_both: Reader, pairs: list[Pair]) -> None:
    plain = [tuple(text.replace("\n", "").replace("\t", "") for text in pair) for pair in pairs]
    content = "".join(f"{source}\t{target}\n" for source, target in plain)

    assert rows_of(read_both("a.tsv", content.encode())) == good(*plain)  # type: ignore[arg-type]


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
@pytest.mark.parametrize("charset", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("mark", ["\t", ","])
def test_line_ends_and_charsets_of_other_programs(end: str, charset: str, mark: str, read_both: Reader) -> None:
    pairs = [("a house", "ein Häuschen"), ("a dog", "ein Hündchen"), ("a bird", "ein Vögelchen")]
    content = "".join(f"{source}{mark}{target}{end}" for source, target in pairs).encode(charset)

    assert rows_of(read_both("a.tsv" if mark == "\t" else "a.csv", content)) == good(*pairs)


@pytest.mark.parametrize("charset", ["windows-1252", "shift_jis", "gb18030", "koi8-r", "utf-16-be", "iso2022_jp"])
def test_the_charset_that_a_recipe_names(charset: str, read_both: Reader) -> None:
    text = {"windows-1252": "größer", "shift_jis": "日本", "gb18030": "中文", "koi8-r": "мир", "iso2022_jp": "日本"}
    pairs = [(f"a {number}", f"{text.get(charset, 'größer')} {number}") for number in range(3000)]
    content = "".join(f"{source}\t{target}\n" for source, target in pairs).encode(charset)

    assert rows_of(read_both("a.tsv", content, encoding=charset)) == good(*pairs)


@pytest.mark.parametrize(("charset", "bad"), [("windows-1252", b"\x81"), ("shift_jis", b"\x81"), ("euc-kr", b"\xff")])
def test_a_byte_that_is_not_in_the_named_charset_costs_its_line(charset: str, bad: bytes, read_both: Reader) -> None:
    table = read_both("a.tsv", b"a\tA\nb" + bad + b"\tB\nc\tC\n", encoding=charset)

    assert table["fault"].to_list() == [None, "invalid_utf8", None]


def test_a_line_for_excel_names_the_delimiter(read_both: Reader) -> None:
    assert rows_of(read_both("a.csv", b"sep=;\r\nen;de\r\na, b;A, B, C\r\n")) == good(("a, b", "A, B, C"))


def test_blank_lines_may_come_first(read_both: Reader) -> None:
    assert read_both("a.tsv", b"\n\nen\tde\na\tA\n")["fault"].to_list() == ["missing_column", "missing_column", None]
    assert read_both("a.csv", b"\nen,de\na,A\n")["fault"].to_list() == ["missing_column", None]
