"""TMX and XLIFF: languages, charsets, inline codes, and faults that cost one unit."""

from collections.abc import Callable, Sequence
from xml.sax.saxutils import escape

import polars as pl
import pytest

from nmt_core.errors import DataError
from nmt_core.formats import markup

Pair = tuple[str, str]
Reader = Callable[..., pl.DataFrame]


def tmx(pairs: Sequence[Pair], doctype: str = "", languages: Pair = ("en", "de")) -> str:
    def variant(language: str, text: str) -> str:
        return f'<tuv xml:lang="{language}"><seg>{escape(text)}</seg></tuv>'

    units = "\n".join(f"<tu>{''.join(map(variant, languages, pair))}</tu>" for pair in pairs)
    head = f'<?xml version="1.0" encoding="UTF-8"?>{doctype}<tmx version="1.4"><header><note>x</note></header>'
    return f"{head}<body>{units}</body></tmx>"


def rows_of(table: pl.DataFrame) -> list[tuple[str, ...]]:
    return table.select("source", "target", "fault", "value").rows()


def good(*pairs: Pair) -> list[tuple[str | None, ...]]:
    return [(*pair, None, None) for pair in pairs]


@pytest.mark.parametrize("languages", [("en", "de"), ("EN-us", "DE"), ("eng", "ger")])
def test_tmx_languages_match_without_region_and_case(languages: Pair, read_both: Reader, awkward: list[Pair]) -> None:
    pairs = [*awkward, ("tab\there", "two\nlines")]
    table = read_both("a", tmx(pairs, languages=languages).encode())

    assert rows_of(table) == good(*pairs)
    assert table["line"].to_list() == list(range(1, len(pairs) + 1))
    assert rows_of(read_both("a", tmx([("a", "A")]).encode(), source_language="de", target_language="en")) == good(
        ("A", "a")
    )


def test_tmx_may_be_in_utf16(read_both: Reader, awkward: list[Pair]) -> None:
    content = tmx(awkward).replace("UTF-8", "UTF-16").encode("utf-16")

    assert rows_of(read_both("a", content)) == good(*awkward)


@pytest.mark.parametrize(
    ("declared", "charset", "text"),
    [
        ("EUC-KR", "euc-kr", "한국어"),
        ("Shift_JIS", "shift_jis", "日本語"),
        ("GB18030", "gb18030", "中文"),
        ("ISO-2022-JP", "iso2022_jp", "日本語"),
        ("windows-1252", "cp1252", "„größer“ €"),
        ("ISO-8859-1", "latin-1", "größer"),
        ("us-ascii", "utf-8", "größer"),
        ("UTF-16", "utf-8", "größer"),  # what is left of a conversion
        ("UTF-8", "utf-8-sig", "größer"),
        ("EUC-KR", "utf-8-sig", "größer"),
    ],
)
def test_tmx_in_another_charset(declared: str, charset: str, text: str, read_both: Reader) -> None:
    pairs = [(f"a {number}", f"{text} {number}") for number in range(3000)]
    content = tmx(pairs).replace("UTF-8", declared).encode(charset)

    assert rows_of(read_both("a", content)) == good(*pairs)


@pytest.mark.parametrize("declared", ["x-klingon", "base64", "undefined"])
def test_tmx_in_an_unknown_charset_is_refused(declared: str, read_both: Reader) -> None:
    with pytest.raises(DataError, match=rf"a: unknown charset '{declared}' in the header: convert the file to UTF-8"):
        read_both("a", tmx([("a", "A")]).replace("UTF-8", declared).encode())


@pytest.mark.parametrize("declared", ["UTF-8", "EUC-KR", "Shift_JIS", "us-ascii"])
def test_a_byte_that_is_not_in_the_charset_costs_its_unit(declared: str, read_both: Reader) -> None:
    content = tmx([("a", "A"), ("b", "caf\xff"), ("c", "C")]).replace("UTF-8", declared).encode("latin-1")

    assert rows_of(read_both("a", content)) == [
        *good(("a", "A")),
        ("b", "caf\ufffd", "invalid_utf8", None),
        *good(("c", "C")),
    ]


def test_control_characters_do_not_cost_the_file(read_both: Reader) -> None:
    content = tmx([("a\x01b\x1fc\x0cd\x7f", "A"), ("b", "B")])

    assert rows_of(read_both("a", content.encode())) == good(("a\x7fb\x7fc d\x7f", "A"), ("b", "B"))


def test_tmx_markup_in_a_segment_goes_and_its_text_stays(read_both: Reader) -> None:
    seg = 'Press <bpt i="1">&lt;b></bpt><hi>Save</hi><ept i="1">&lt;/b></ept> <ph>{0}<sub>x</sub></ph>now'
    content = tmx([("SEG", "Jetzt sichern")]).replace("SEG", seg)

    assert rows_of(read_both("a", content.encode())) == good(("Press Save now", "Jetzt sichern"))


CODES = {
    "Click<ph/>here": "Click here",
    "Click<ph x='1'>&lt;br/&gt;</ph>here": "Click here",
    "Click <ph/>here<ph/>.": "Click here.",
    "Done.<ut>x</ut>Next": "Done. Next",
    "<ph/>Click(<ph/>)<ph/>": "Click()",
    "un<bpt i='1'>x</bpt>believ<ept i='1'>x</ept>able": "unbelievable",
    "un<it pos='begin'>x</it>able": "unable",
    "H<ph>&lt;sub&gt;</ph>2<ph>&lt;/sub&gt;</ph>O": "H2O",
    "点击<ph/>这里": "点击这里",
    "a<ph>x<sub>y</sub></ph>b": "a b",
    "a<hi>b</hi>c": "abc",
}
CODES_OF_XLIFF = {
    "a<x id='1'/>b": "a b",
    "a<x id='START_BOLD'/>b<x id='CLOSE_BOLD'/>c": "abc",
    "a<x id='1' ctype='bold'/>b": "ab",
    "a<g id='1'>b</g>c": "abc",
    "a<bx id='1'/>b<ex id='1'/>c": "abc",
    "a<ph id='1'>%s</ph>b": "a b",
    "a<mrk mtype='term'>b</mrk>c": "abc",
    "a<pc id='1'>b</pc>c": "abc",
    "a<sc id='1'/>b<ec id='1'/>c<sm id='2'/>d<em/>e": "abcde",
}


@pytest.mark.parametrize("seg", CODES)
def test_codes_that_stand_alone_leave_a_space_between_words(seg: str, read_both: Reader) -> None:
    content = tmx([("SEG", "A")]).replace("SEG", seg)

    assert rows_of(read_both("a", content.encode())) == good((CODES[seg], "A"))


@pytest.mark.parametrize("seg", CODES_OF_XLIFF)
def test_codes_of_xliff_that_stand_alone_leave_a_space(seg: str, read_both: Reader) -> None:
    content = XLIFF_1.replace("<source>b</source>", f"<source>{seg}</source><target>A</target>")

    assert rows_of(read_both("a", content.encode()))[1] == (CODES_OF_XLIFF[seg], "A", None, None)


REPAIRED = {
    "a &#x1E; b": "a \x7f b",
    "a &#0;&#31; b": "a \x7f\x7f b",
    "a \uffff b \U0001fffe\ufdd0": "a \x7f b \x7f\x7f",
    "a &#xFFFE; b": "a \x7f b",
    "&#xD83D;&#xDE00; &#55357;&#56832;": "😀 😀",
    "&#xD83D; &#xDE00; &#x110000; &#99999999;": "\x7f \x7f \x7f \x7f",
    "a&nbsp;b &eacute; &LT; &unheardof;": "a\u00a0b é < &unheardof;",
    "R&D & AT&T": "R&D & AT&T",
    "1 < 2 <3": "1 < 2 <3",
    "<![CDATA[a &nbsp; <b> & ]]>c": "a &nbsp; <b> & c",
    "a<!-- & < -->b": "ab",
    "&#228;&#xE4;&amp;amp;": "ää&amp;",
}


@pytest.mark.parametrize("seg", REPAIRED)
@pytest.mark.parametrize("block_bytes", [1, 7, 1 << 18])
def test_characters_and_entities_that_xml_forbids_cost_nothing(
    seg: str, block_bytes: int, read_both: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(markup, "_BLOCK_BYTES", block_bytes)
    content = tmx([("a", "A"), ("SEG", "B"), ("c", "C")]).replace("SEG", seg)

    assert rows_of(read_both("a", content.encode())) == good(("a", "A"), (REPAIRED[seg], "B"), ("c", "C"))


UNIT = '<tu><tuv xml:lang="en"><seg>b</seg></tuv><tuv xml:lang="de"><seg>B</seg></tuv></tu>'
DAMAGED = {
    "another end tag": UNIT.replace("b</seg>", "b</sge>"),
    "no end tag": UNIT.replace("b</seg>", "b <b> c</seg>"),
    "an end tag too many": UNIT.replace("b</seg>", "b</i></seg>"),
    "an attribute without quotes": UNIT.replace("<tu>", "<tu id=1>"),
    "an attribute twice": UNIT.replace("<tu>", '<tu a="1" a="2">'),
    "half a tag": UNIT.replace("b</seg>", "b <seg foo </seg>"),
    "a unit without an end": UNIT.removesuffix("</tu>"),
    "HTML in a code": UNIT.replace("b</seg>", "b<ph><br></ph></seg>"),
}


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("block_bytes", [5, 1 << 18])
def test_a_bad_tag_costs_its_unit(
    name: str, place: int, block_bytes: int, read_both: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(markup, "_BLOCK_BYTES", block_bytes)
    pairs = [("a", "A"), ("b", "B"), ("c", "C")]
    sound = tmx(pairs).split("\n")
    unit = tmx([pairs[place]]).partition("<body>")[2].partition("</body>")[0]
    content = "\n".join(sound).replace(unit, DAMAGED[name])
    table = read_both("a", content.encode())

    faults = table["fault"].to_list()
    assert faults == [None if number != place else "invalid_xml" for number in range(3)]
    assert str(table["value"][place]).startswith(f"line {place + 1}") or name == "a unit without an end"
    assert rows_of(table.filter(pl.col("fault").is_null())) == good(*(pairs[:place] + pairs[place + 1 :]))


@pytest.mark.parametrize(("text", "end"), [("</xliff>", "xliff"), ("</dataset>", "dataset")])
def test_a_bad_tag_in_other_formats(text: str, end: str, read_both: Reader) -> None:
    unit = "<trans-unit><source>{0}</source><target>{0}</target></trans-unit>"
    doc = '<doc><src lang="en"><seg id="1">{0}</seg></src><ref lang="de"><seg id="1">{0}</seg></ref></doc>'
    files = {
        "xliff": '<xliff version="1.2"><file source-language="en" target-language="de"><body>{}</body></file>'
        '<file source-language="en" target-language="fr"><body>{}</body></file></xliff>',
        "dataset": "<dataset>{}{}</dataset>",
    }
    units = [(unit if end == "xliff" else doc).format(name) for name in "abcd"]
    units[1] = units[1].replace("b</", "b</x></")
    table = read_both("a", files[end].format("".join(units[:2]), "".join(units[2:])).encode())

    assert table["fault"].to_list()[:2] == [None, "invalid_xml"]
    assert table["source"].to_list()[2:] == ["c", "d"]
    assert table["fault"].to_list()[2:] == (["missing_language"] * 2 if end == "xliff" else [None] * 2)


@pytest.mark.parametrize("before", ["\n\n ", '<?xml version="1.0"?>\n', "<!-- a -->\n"])
def test_the_declaration_may_come_late_or_twice(before: str, read_both: Reader) -> None:
    assert rows_of(read_both("a", (before + tmx([("a", "A")])).encode())) == good(("a", "A"))


@pytest.mark.parametrize("header", ["<header srclang=en/>", "<header><prop>x</header>"])
def test_a_bad_header_costs_no_unit(header: str, read_both: Reader) -> None:
    content = tmx([("a", "A"), ("b", "B")]).replace("<header><note>x</note></header>", header)
    table = read_both("a", content.encode())

    assert table["fault"].to_list() == ["invalid_xml", None, None]
    assert rows_of(table.tail(2)) == good(("a", "A"), ("b", "B"))


def test_what_follows_the_root_is_a_fault(read_both: Reader) -> None:
    content = tmx([("a", "A")]) + "\0\0"

    assert read_both("a", content.encode())["fault"].to_list() == [None, "invalid_xml"]


def test_a_fault_does_not_hide_a_missing_end(read_both: Reader) -> None:
    content = tmx([("a", "A"), ("b", "B"), ("c", "C")]).replace("b</seg>", "b</sge>")
    for kept in (content.index("</body>"), content.index("b</sge>") + 20):
        with pytest.raises(DataError, match="the XML is truncated or damaged"):
            read_both("a", content[:kept].encode())


def test_tmx_units_without_a_language_are_faults(read_both: Reader) -> None:
    content = tmx([("a", "A"), ("b", "")]).replace(
        "</body>", '<tu><tuv xml:lang="fr"><seg>x</seg></tuv><tuv lang="en"><seg>c</seg></tuv></tu></body>'
    )

    assert rows_of(read_both("a", content.encode())) == [
        ("a", "A", None, None),
        ("b", "", "untranslated", None),
        ("c", "", "missing_language", "only fr, en"),
    ]


@pytest.mark.parametrize(
    ("variants", "language", "expected"),
    [
        (["de-DE", "de-AT"], "de", ["de-DE", "de-AT"]),
        (["de", "de"], "de", ["de", "de"]),
        (["pt-PT", "pt-BR"], "pt_BR", ["pt-BR"]),
        (["zh-CN", "zh-TW"], "zh_Hant", ["zh-TW"]),
        (["sr-Cyrl", "sr@latin"], "sr_Latn", ["sr@latin"]),
        (["nb", "no"], "nb", ["nb"]),
        (["nn", "no"], "nb", ["no"]),
        (["nb", "nn"], "no", ["nb", "nn"]),
        (["fil"], "tl", ["fil"]),
        (["deu_Latn"], "de", ["deu_Latn"]),
    ],
)
def test_every_variant_of_a_language_is_used(
    variants: list[str], language: str, expected: list[str], read_both: Reader
) -> None:
    made = "".join(f'<tuv xml:lang="{tag}"><seg>{tag}</seg></tuv>' for tag in variants)
    content = tmx([]).replace("<body>", f'<body><tu><tuv xml:lang="en"><seg>a</seg></tuv>{made}</tu>')
    table = read_both("a", content.encode(), target_language=language)

    assert rows_of(table) == good(*(("a", tag) for tag in expected))


def test_each_of_several_variants_on_both_sides_is_in_a_pair(read_both: Reader) -> None:
    tags = ["en-US", "en-GB", "de", "de-AT", "de-CH", "fr"]
    made = "".join(f'<tuv xml:lang="{tag}"><seg>{tag}</seg></tuv>' for tag in tags)
    content = tmx([]).replace("<body>", f"<body><tu>{made}</tu>")

    assert rows_of(read_both("a", content.encode())) == good(("en-US", "de"), ("en-GB", "de-AT"), ("en-GB", "de-CH"))


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE tmx SYSTEM "tmx14.dtd">',
        '<!DOCTYPE tmx PUBLIC "-//LISA//DTD" "http://127.0.0.1:9/tmx.dtd">',
        "<!DOCTYPE tmx [<!ELEMENT tmx ANY>]>",
    ],
)
def test_a_harmless_doctype_is_accepted_and_nothing_is_loaded(doctype: str, read_both: Reader) -> None:
    content = tmx([("a", "A")], doctype)

    assert rows_of(read_both("a", content.encode())) == good(("a", "A"))


def test_named_characters_of_html_are_text_where_a_dtd_may_declare_them(read_both: Reader) -> None:
    content = tmx([("SEG", "A")], '<!DOCTYPE tmx SYSTEM "tmx14.dtd">').replace("SEG", "a&nbsp;b&unheardof;")

    assert rows_of(read_both("a", content.encode())) == good(("a\u00a0b&unheardof;", "A"))


BILLION_LAUGHS = (
    '<!DOCTYPE tmx [<!ENTITY a "ha">'
    + "".join(f'<!ENTITY {name} "{f"&{before};" * 10}">' for before, name in zip("abcdefgh", "bcdefghi", strict=True))
    + "]>"
)


@pytest.mark.parametrize(
    "doctype",
    [
        BILLION_LAUGHS,
        '<!DOCTYPE tmx [<!ENTITY i SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE tmx [<!ENTITY % i SYSTEM "http://127.0.0.1:9/">]>',
    ],
)
def test_a_dtd_that_declares_entities_is_refused(doctype: str, read_both: Reader) -> None:
    content = tmx([("SEG", "A")], doctype).replace("SEG", "&i;")
    with pytest.raises(DataError, match=r"a: declares the entity '.', which is not expanded"):
        read_both("a", content.encode())


@pytest.mark.parametrize("kept", [0.5, 0.999])
def test_truncated_xml_is_refused(kept: float, read_both: Reader) -> None:
    content = tmx([("a", "A")] * 20_000).encode()
    with pytest.raises(DataError, match=r"a: the XML is truncated or damaged .*: fetch it again"):
        read_both("a", content[: int(kept * len(content))])


def test_text_beyond_the_limit_is_a_fault_with_its_length(read_both: Reader) -> None:
    content = tmx([("é" * 5_000_000, "A"), ("b", "B")]).encode()
    table = read_both("a", content)

    assert table.select("fault", "value").rows() == [("too_long_line", "10000000"), (None, None)]
    assert len(table.item(0, "source")) < 1000


def test_a_tag_without_an_end_is_refused(read_both: Reader) -> None:
    content = tmx([("a", "A")]).replace("<body>", f'<body x="{"y" * (1 << 23)}">')
    with pytest.raises(DataError, match="a tag without an end"):
        read_both("a", content.encode())


XLIFF_1 = """<?xml version="1.0"?><xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file original="a" source-language="en-US" target-language="de"><header><note>x</note></header><body><group>
<trans-unit id="1"><source>Press <g id="1">Save</g><ph id="2">%s</ph></source>
<seg-source><mrk mtype="seg">no</mrk></seg-source><target>Sichern</target>
<alt-trans><source>other</source><target>anderes</target></alt-trans></trans-unit></group>
<trans-unit id="2"><source>b</source></trans-unit>
<trans-unit id="3"><source>c</source><target state="needs-translation">c</target></trans-unit></body></file>
<file source-language="en" target-language="fr"><body>
<trans-unit id="1"><source>d</source><target>D</target></trans-unit></body></file></xliff>"""
XLIFF_2 = """<xliff version="2.0" srcLang="en" trgLang="de-DE" xmlns="urn:oasis:names:tc:xliff:document:2.0">
<file id="f"><unit id="1"><notes><note>x</note></notes>
<segment><source>a <pc id="1">b</pc><ph id="2"/></source><target>A B</target></segment>
<ignorable><source> </source></ignorable><segment><source>c</source><target>C</target></segment></unit>
<unit id="2"><mtc:matches xmlns:mtc="urn:m"><mtc:match><source>x</source><target>X</target></mtc:match></mtc:matches>
<segment><source>d</source></segment></unit></file></xliff>"""


def test_xliff_1(read_both: Reader) -> None:
    assert rows_of(read_both("a", XLIFF_1.encode())) == [
        ("Press Save", "Sichern", None, None),
        ("b", "", "untranslated", None),
        ("c", "c", "untranslated", "needs-translation"),
        ("d", "D", "missing_language", "en to fr"),
    ]


def test_xliff_2(read_both: Reader) -> None:
    assert rows_of(read_both("a", XLIFF_2.encode())) == [
        *good(("a b", "A B"), ("c", "C")),
        ("d", "", "untranslated", None),
    ]


@pytest.mark.parametrize(
    ("unit", "target", "value"),
    [
        ("", 'state="new"', "new"),
        ("", 'state="needs-translation"', "needs-translation"),
        ("", 'state="needs-l10n"', "needs-l10n"),
        ("", 'state="needs-adaptation"', None),  # of what is no text
        ("", 'state="needs-review-translation"', None),
        ('approved="no"', "", 'approved="no"'),
        ('approved="no"', 'state="needs-review-translation"', 'approved="no"'),  # a fuzzy entry of a PO file
        ('approved="no"', 'state="new"', "new"),
        ('approved="no"', 'state="translated"', None),
        ('approved="no"', 'state="final"', None),
        ('approved="yes"', "", None),
        ("", "", None),
    ],
)
def test_what_xliff_1_says_is_not_translated_yet(unit: str, target: str, value: str | None, read_both: Reader) -> None:
    content = XLIFF_1.replace(
        'id="2"><source>b</source>', f'id="2" {unit}><source>b</source><target {target}>B</target>'
    )
    rows = rows_of(read_both("a", content.encode()))

    assert rows[1] == ("b", "B", "untranslated" if value else None, value)
    assert rows[2][2:] == ("untranslated", "needs-translation")
    assert rows[0][2:] == (None, None), "what is said of a unit holds for no other"


@pytest.mark.parametrize(
    ("state", "value"),
    [("initial", "initial"), ("translated", None), ("reviewed", None), ("final", None)],
)
def test_what_xliff_2_says_is_not_translated_yet(state: str, value: str | None, read_both: Reader) -> None:
    content = XLIFF_2.replace("<segment><source>c", f'<segment state="{state}"><source>c')
    rows = rows_of(read_both("a", content.encode()))

    assert rows[1] == ("c", "C", "untranslated" if value else None, value)
    assert rows[0][2:] == (None, None)


def test_xliff_may_be_read_backward(read_both: Reader) -> None:
    table = read_both("a", XLIFF_2.encode(), source_language="de", target_language="en")

    assert table.rows()[:2] == [("A B", "a b", 1, None, None), ("C", "c", 2, None, None)]


def test_xliff_keeps_awkward_text(read_both: Reader, awkward: list[Pair]) -> None:
    units = "".join(
        f"<trans-unit><source>{escape(s)}</source><target>{escape(t)}</target></trans-unit>" for s, t in awkward
    )
    content = (
        f'<xliff version="1.2"><file source-language="en" target-language="de"><body>{units}</body></file></xliff>'
    )

    assert rows_of(read_both("a", content.encode())) == good(*awkward)
