"""Files as people have them: each is read right, or its fault has one clear message."""

import gzip
import json
import lzma
from collections.abc import Callable

import polars as pl
import pytest

from nmt_core.errors import DataError

Reader = Callable[..., pl.DataFrame]
PAIRS = [("Hello there", "Hallo du"), ("Second line", "Zweite Zeile")]
TABLE = "".join(f"{source}\t{target}\n" for source, target in PAIRS)
PO = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n"Language: {}\\n"\n\n'


def pairs_in(table: pl.DataFrame) -> list[tuple[str, str]]:
    """Return the rows, of which none may have a fault."""
    assert table["fault"].to_list() == [None] * table.height
    return table.select("source", "target").rows()


@pytest.mark.parametrize(
    "charset", ["utf-16-le", "utf-16-be", "utf-16", "utf-32", "utf-32-le", "utf-32-be", "utf-8-sig"]
)
@pytest.mark.parametrize("text", ["Hello there", "안녕 세계", "你好 世界", "😀 🦄"])
def test_wide_characters_are_read_with_and_without_a_mark(charset: str, text: str, read_both: Reader) -> None:
    assert pairs_in(read_both("a.tsv", f"{text}\tHallo du\n".encode(charset))) == [(text, "Hallo du")]


@pytest.mark.parametrize("charset", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize(
    "text",
    [
        "我们昨天晚上坐火车去上海看了很多朋友和家人。",
        "ช้างตัวใหญ่เดินเข้ามาในหมู่บ้าน",
        "ਅਸੀਂ ਸਾਰੇ ਇੱਥੇ ਹਾਂ।",
        "Ċikka marret id-dar.",
    ],
)
def test_letters_that_look_like_line_ends_in_wide_characters_are_letters(
    charset: str, text: str, read_both: Reader
) -> None:
    rows = [(f"{text} {number}", f"Hallo {number}") for number in range(40)]
    content = "".join(f"{source}\t{target}\n" for source, target in rows)
    assert pairs_in(read_both("a.tsv", content.encode(charset))) == rows


def test_lines_of_bytes_with_nul_in_some_are_lines(read_both: Reader) -> None:
    heads, tails = (b"\0\1\0\2", b"\1\0\0\1", b"\x96a b\0"), (b"\0", b"1", b"$\xc8", b"", b"word", b"\0\1 \0", b"ab")
    lines = [head + b"\t" + tail for head in heads for tail in tails]
    table = read_both("a.tsv", b"".join(line + b"\n" for line in lines))
    assert table.height == len(lines)


PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "a.tsv.gz": lambda text: gzip.compress(gzip.compress(text)),
    "a.tsv.gz.gz": lambda text: gzip.compress(gzip.compress(text)),
    "a.tsv.xz": lambda text: lzma.compress(gzip.compress(text)),
    "b.tsv.gz": lambda text: gzip.compress(text[:20]) + gzip.compress(text[20:]),
    "c.tsv.gz": lambda text: gzip.compress(text) + bytes(512),
    "a.tsv": gzip.compress,
}


@pytest.mark.parametrize("name", PACKINGS)
def test_what_is_packed_twice_or_oddly_is_unpacked(name: str, read_both: Reader) -> None:
    assert pairs_in(read_both(name, PACKINGS[name](TABLE.encode()))) == PAIRS


def test_what_is_packed_twice_is_bounded_by_the_file(read_both: Reader) -> None:
    bomb = gzip.compress(gzip.compress(bytes(200_000_000), 9), 9)
    with pytest.raises(DataError, match=r"expand to more than .* this is not text"):
        read_both("a.tsv.gz", bomb)


TABLES = {
    "a.csv": 'source|target\n"a | b"|c\n',
    "b.csv": 'sep=;\nsource;target\n"a | b";c\n',
    "c.csv": 'source,target,,\n"a | b",c,,\n',
    "d.csv": 'source,target\r\n"a | b",c\r\n',
    "a.jsonl": '["a | b", "c"]\n',
    "b.jsonl": '{"en": "a | b", "de": "c"},\n',
    "c.jsonl": '{"en": "a | b", "de": "c", "score": NaN}\n',
    "d.jsonl": '\ufeff{"EN": "a | b", "DE": "c"}\n',
    "a.json": json.dumps({"7": {"en": "a | b", "de": "c"}, "9": {"en": "a | b", "de": "c"}}),
    "b.json": json.dumps({"version": 1, "data": [{"source": "a | b", "target": "c"}]}),
    "c.json": json.dumps({"en": ["a | b"], "de": ["c"]}),
    "d.json": "\n \n" + json.dumps([["a | b", "c"]]),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_other_shapes_are_read(name: str, read_both: Reader) -> None:
    assert set(pairs_in(read_both(name, TABLES[name].encode()))) == {("a | b", "c")}


@pytest.mark.parametrize(
    "names",
    [
        *("Quelle Ziel", "msgid msgstr", "source cible", "origen destino", "prompt completion", "col_1 col_2"),
        *("col1 col2", "L1 L2", "Column1 Column2", "id prompt completion"),
    ],
)
def test_a_header_in_other_words_is_no_pair(names: str, read_both: Reader) -> None:
    columns = names.split()
    table = read_both("a.tsv", ("\t".join(columns) + "\n" + "\t".join(f"text {name}" for name in columns)).encode())
    assert pairs_in(table) == [(f"text {columns[-2]}", f"text {columns[-1]}")]


FORMER = {
    "in": "id",
    "in_ID": "id",
    "iw": "he",
    "ji": "yi",
    "jw": "jv",
    "mo": "ro",
    "mol": "ro",
    "scc": "sr",
    "scr": "hr",
    "hbs_Latn": "hr",
    "hbs": "sr",
    "sh": "bs",
    "zh-min-nan": "nan",
    "zh_guoyu": "zh",
    "no-nyn": "nn",
    "i-lux": "lb",
    "zh-CN": "zh",
    "cmn": "zh",
    "nb-NO": "no",
    "pt-br": "pt",
    "srp_Cyrl": "sr",
    "sr@latin": "sr_Latn",
    "zh-HK": "zh_Hant",
    "es-419": "es",
    "de-1996": "de",
    "ca-valencia": "ca",
    "tl-PH": "fil",
    "prs": "fa",
    "en_US.UTF-8": "en",
    "de-DE-u-co-phonebk": "de",
    "EKK_latn": "et",
}


@pytest.mark.parametrize("tag", FORMER)
def test_former_and_regional_tags_are_understood(tag: str, read_both: Reader) -> None:
    unit = f'<tu><tuv xml:lang="fr"><seg>un</seg></tuv><tuv xml:lang="{tag}"><seg>one</seg></tuv></tu>'
    table = read_both(
        "a.tmx", f"<tmx><body>{unit}</body></tmx>".encode(), source_language="fr", target_language=FORMER[tag]
    )
    assert pairs_in(table) == [("un", "one")]


@pytest.mark.parametrize(
    ("tag", "language"), [("zh-TW", "zh_Hans"), ("pt-PT", "pt_BR"), ("x-none", "de"), ("mo", "ru")]
)
def test_other_languages_are_not_taken(tag: str, language: str, read_both: Reader) -> None:
    unit = f'<tu><tuv xml:lang="fr"><seg>un</seg></tuv><tuv xml:lang="{tag}"><seg>one</seg></tuv></tu>'
    table = read_both(
        "a.tmx", f"<tmx><body>{unit}</body></tmx>".encode(), source_language="fr", target_language=language
    )
    assert table["fault"].to_list() == ["missing_language"]


def test_the_six_forms_of_an_arabic_plural_are_pairs(read_both: Reader) -> None:
    forms = "".join(f'msgstr[{number}] "شكل {number}"\n' for number in range(6))
    header = PO.format("ar").replace("\n\n", '\n"Plural-Forms: nplurals=6; plural=n==0?0:n==1?1:2;\\n"\n\n')
    content = header + 'msgid "%d file"\nmsgid_plural "%d files"\n' + forms
    pairs = pairs_in(read_both("a.po", content.encode(), target_language="ar"))
    assert [target for _, target in pairs] == [f"شكل {number}" for number in range(6)]
    assert [source for source, target in pairs if source == "%d file"] == ["%d file"]


FAULTS = {
    "control": ("<seg>a &#x1; b</seg>", None),
    "pair of surrogates": ("<seg>a &#xD83D;&#xDE00; b</seg>", None),
    "ampersand": ("<seg>R & D</seg>", None),
    "entity": ("<seg>a&nbsp;b &eacute;</seg>", None),
    "less than": ("<seg>1 < 2</seg>", None),
    "data": ("<seg><![CDATA[a <b> & c]]></seg>", None),
    "open": ("<seg>a", "invalid_xml"),
    "empty": ("<seg></seg>", "untranslated"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_costs_its_own_unit_at_most(fault: str, read_both: Reader) -> None:
    segment, reason = FAULTS[fault]
    german = '<tuv xml:lang="de"><seg>b</seg></tuv></tu>'
    units = f'<tu><tuv xml:lang="en">{segment}</tuv>{german}<tu><tuv xml:lang="en"><seg>Good</seg></tuv>{german}'
    table = read_both("a.tmx", f'<tmx version="1.4"><body>{units}</body></tmx>'.encode())
    assert table["fault"].to_list() == [reason, None]
    assert table.row(1)[:2] == ("Good", "b")


@pytest.mark.parametrize(
    ("name", "content", "facts"),
    [
        ("a.tsv.gz", gzip.compress(TABLE.encode() * 1_000)[:60], "truncated or damaged .* fetch it again"),
        ("a.tmx", b"<tmx><body><tu>", "truncated or damaged .* repair"),
        ("a.json", b"[]", "holds no pair"),
        ("a.json", b'[{"en": "a", "de": "b"}', "no end"),
        ("a.json", b"<html><body>404</body></html>", "HTML page"),
        ("a.tsv", b"en\tde\tde\na\tb\tc\n", "several columns may hold en and de: en, de, de: set `source_column`"),
        ("a.tmx", b'<!DOCTYPE tmx [<!ENTITY a "aa">]><tmx><body>&a;</body></tmx>', "entity 'a'"),
    ],
)
def test_what_cannot_be_read_has_one_message(name: str, content: bytes, facts: str, read_both: Reader) -> None:
    with pytest.raises(DataError, match=facts) as error:
        read_both(name, content)
    assert "\n" not in str(error.value)


def test_an_unknown_charset_of_the_recipe_is_named(read_both: Reader) -> None:
    with pytest.raises(DataError, match="'utf-99' in `encoding`: correct it in the recipe"):
        read_both("a.tsv", TABLE.encode(), encoding="utf-99")
