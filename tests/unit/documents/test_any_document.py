"""Any document of a grammar comes back unchanged. Any bytes come back or give an error with a place."""

import html
import io
import re
import zipfile
from typing import Any

import lxml.etree
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.documents import DOCUMENTS, OPTIONS, docx, opened, translated

from nmt_core.documents.document import Translated
from nmt_core.errors import NmtError

FORMS = sorted({form for form, _ in DOCUMENTS.values()})

WORDS = st.text("ab <&>;\"'\\*_[]`é|#-1.\t", max_size=12)
LINE_ENDS = st.sampled_from(["\n", "\r\n"])
TAGS = """<p> </p> <b> </b> <b/> <a	href='x>y'> </a> <br> <img> <code> </code> <pre> </pre> <!--x--> <!x> <?x> &amp;
&#65; &nbsp; &copy <![CDATA[x]]> <script> </script> <i	translate=no> </i> <td>"""
HTML = st.lists(st.sampled_from([*re.split("[ \\n]", TAGS), "\n", "\r\n"]) | WORDS).map("".join)
MARKDOWN = st.lists(
    st.sampled_from(
        [
            *("# a", "a", "- a", "1. a", "> a", "    a", "```", "***", "| a | b |", "|---|---|", "", "<b>", "[a]: /x"),
            *("a `b` *c* **d** _e_", "[a](b 'c') ![d](e) [a]", "<div>", "a  ", "a\\", "===", "<!-- a -->", "\\* &amp;"),
        ]
    )
    | WORDS
)
SUBTITLES = st.lists(
    st.sampled_from(["1", "", "00:00:01,000 --> 00:00:02,000", "- a", "a <i>b", "c</i>", "{\\an8}a", "NOTE a"]) | WORDS
)
QUOTED = WORDS.map(lambda text: text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t"))
XML_TEXT = st.lists(
    st.sampled_from(
        ["a ", "b", "&amp;", "&#233;", "<!--c-->", "<x id='1'/>", "<ph>&lt;br></ph>", "\n  ", "<![CDATA[<]]>"]
    )
    | WORDS.map(html.escape)
).map("".join)
NESTED = st.recursive(
    XML_TEXT,
    lambda inner: st.tuples(XML_TEXT, inner, XML_TEXT).map(lambda x: f"{x[0]}<g>{x[1]}</g>{x[2]}"),
    max_leaves=4,
)
RUN = st.tuples(
    st.sampled_from(["", "<w:rPr><w:b/></w:rPr>", '<w:rPr><w:lang w:val="en"/></w:rPr>', "<w:rPr><w:i/></w:rPr>"]),
    st.lists(
        st.sampled_from(["<w:tab/>", "<w:br/>", "<w:drawing/>", "<w:instrText>X</w:instrText>"])
        | WORDS.map(lambda text: f'<w:t xml:space="preserve">{html.escape(text)}</w:t>'),
        max_size=3,
    ).map("".join),
).map(lambda parts: f"<w:r>{parts[0]}{parts[1]}</w:r>")
BETWEEN = st.sampled_from(
    [
        *("<w:bookmarkStart w:id='1'/>", "<w:proofErr/>", "<w:pPr/>", "<w:del><w:r/></w:del>", "<w:subDoc/>"),
        "<m:oMath><m:r><m:t>x</m:t></m:r></m:oMath>",
    ]
)
RUNS = st.lists(RUN | BETWEEN, max_size=5).map("".join)
AROUND = st.sampled_from(
    [
        ("<w:hyperlink>", "</w:hyperlink>"),
        ("<w:fldSimple><w:fldData/>", "</w:fldSimple>"),
        ("<w:smartTag><w:smartTagPr/>", "</w:smartTag>"),
        ("<w:sdt><w:sdtPr><w:id/></w:sdtPr>\n<w:sdtContent>", "</w:sdtContent>\n</w:sdt>"),
    ]
)
PARAGRAPHS = st.lists(
    st.tuples(RUNS, AROUND, RUNS, AROUND, RUNS).map(
        lambda x: f"<w:p>{x[0]}{x[1][0]}{x[2]}{x[3][0]}{x[4]}{x[3][1]}{x[1][1]}{x[0]}</w:p>"
    ),
    max_size=3,
).map("".join)


@given(HTML)
def test_html_comes_back_as_it_was(page: str) -> None:
    assert translated(page, "html", str) == page.encode()
    translated(page, "html")


@given(MARKDOWN, LINE_ENDS)
def test_markdown_comes_back_as_it_was(lines: list[str], end: str) -> None:
    page = end.join(lines)
    assert translated(page, "markdown", str) == page.encode()
    translated(page, "markdown")


@given(SUBTITLES, LINE_ENDS, st.sampled_from(["srt", "vtt"]))
def test_subtitles_come_back_as_they_were(lines: list[str], end: str, form: str) -> None:
    text = end.join([{"srt": "00:00:00,000 --> 00:00:01,000", "vtt": "WEBVTT"}[form], *lines])
    assert translated(text, form, str) == text.encode()
    times = [line for line in translated(text, form).decode().split(end) if "-->" in line and line[0] == "0"]
    assert times == [line for line in text.split(end) if "-->" in line and line[0] == "0"]


@given(st.lists(QUOTED), LINE_ENDS)
def test_messages_of_po_are_their_own_translations(messages: list[str], end: str) -> None:
    entries = [f'#: a{end}msgid "{message}"{end}msgstr ""{end}{end}' for message in messages]
    po = "".join(entries)
    done = translated(po, "po", str).decode()
    assert opened(po, "po").splice([None] * len(opened(po, "po").segments)).content == po.encode()
    for entry in done.split(f"{end}{end}")[:-1]:
        _, msgid, msgstr = entry.split(end)
        if msgstr != 'msgstr ""':
            collapsed = [" ".join(part.split(" ")) for part in (msgid[5:], msgstr[6:])]
            assert " ".join(collapsed[0].split()) == " ".join(collapsed[1].split())


@given(NESTED)
def test_segments_of_xliff_and_tmx_stay_well_formed(text: str) -> None:
    for form, page in {
        "xliff": f"<xliff version='1.2'><file><trans-unit><source>{text}</source></trans-unit></file></xliff>",
        "tmx": f"<tmx><tu><tuv lang='en'><seg>{text}</seg></tuv></tu></tmx>",
    }.items():
        content = page.encode()
        segments = opened(content, form).segments
        assert opened(content, form).splice([None] * len(segments)).content == content
        before, after = lxml.etree.fromstring(content), lxml.etree.fromstring(translated(content, form))
        if segments and not segments[0].fault:
            source, target = (list(after.iter("source", "target")) + list(after.iter("seg")))[:2]
            tags = [
                sorted(str(one.tag) for one in side.iter() if isinstance(one.tag, str)) for side in (source, target)
            ]
            assert tags[0][:-1] == tags[1][:-1] or sorted(tags[0]) == sorted(tags[1]) or {"source"} & set(tags[0])
        assert before.tag == after.tag


@given(PARAGRAPHS)
@settings(max_examples=60)
def test_paragraphs_of_docx_keep_their_text_and_their_parts(body: str) -> None:
    content = docx(body)
    assert translated(content, "docx", str) == content
    before, after = body_of(content), body_of(translated(content, "docx"))
    for name in ("tab", "br", "drawing", "instrText", "bookmarkStart", "hyperlink", "del", "p", "sdt", "oMath"):
        assert len(list(before.iter(f"{{*}}{name}"))) == len(list(after.iter(f"{{*}}{name}")))
    new_runs = {(parent, "r") for parent in ("p", "hyperlink", "fldSimple", "smartTag", "sdtContent")}
    assert nestings(after) <= nestings(before) | {("r", "t"), *new_runs}
    for old, new in zip(before.iter("{*}p"), after.iter("{*}p"), strict=True):
        assert "".join(text_of(old).split()).upper() == "".join(text_of(new).split()).upper()


def body_of(content: bytes) -> Any:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return lxml.etree.fromstring(archive.read("word/document.xml"))


def nestings(body: Any) -> set[tuple[str, str]]:
    """Return the names of all elements, each with the names of the elements around it."""
    name = lambda element: lxml.etree.QName(element).localname  # noqa: E731
    return {(name(one.getparent()), name(one)) for one in body.iterdescendants("*")}


def text_of(paragraph: Any) -> str:
    return "".join(one.text or "" for one in paragraph.iter("{*}t") if one.prefix == "w")


@pytest.mark.parametrize("form", FORMS)
@given(data=st.data())
@settings(max_examples=60)
def test_damaged_documents_are_refused_or_come_back(form: str, data: st.DataObject) -> None:
    """Bytes are changed, added and left out in a sound document."""
    content = bytearray(data.draw(st.sampled_from([own for name, own in DOCUMENTS.values() if name == form])))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 40))] = data.draw(
            st.binary(max_size=6) | st.just(b"<") | st.just(b'"')
        )
    comes_back(bytes(content), form)


@pytest.mark.parametrize("form", FORMS)
@given(content=st.binary(max_size=200))
@settings(max_examples=40)
def test_any_bytes_are_refused_or_come_back(form: str, content: bytes) -> None:
    comes_back(content, form)


def comes_back(content: bytes, form: str) -> None:
    try:
        document = opened(content, form)
    except NmtError as error:
        assert f"a.{form}" in str(error)
        return
    assert document.splice([None] * len(document.segments)).content == content
    document.splice([None if one.fault else Translated(f"{one.text} x") for one in document.segments])


@pytest.mark.parametrize(
    ("form", "content"),
    [
        ("html", "<b>" * 3_000 + "a" + "</b>" * 3_000),
        ("html", "<p>" + "<b>a</b> " * 1_000),
        ("html", "a < " * 20_000),
        ("html", "<!--" * 3_000),
        ("html", "<![" * 2_000),
        ("markdown", "[" * 2_000 + "a"),
        ("markdown", "*a _b " * 2_000),
        ("markdown", "`a ``b " * 2_000),
        ("markdown", "![a" * 1_000),
        ("markdown", "> " * 300 + "a"),
        ("tmx", f"<tmx><tu><tuv lang='en'><seg>{'<hi>' * 3_000}a{'</hi>' * 3_000}</seg></tuv></tu></tmx>"),
        ("po", 'msgid "' + "<a " * 5_000 + '"\nmsgstr ""\n'),
        ("po", 'msgid "' + "\\" * 9_999),
        ("srt", "00:00:00,000 --> 00:00:01,000\n" + "<i\n" * 3_000),
    ],
)
@pytest.mark.timeout(120)
def test_no_document_takes_for_ever(form: str, content: str) -> None:
    comes_back(content.encode(), form)


def test_every_format_has_a_grammar() -> None:
    assert FORMS == ["docx", "html", "markdown", "po", "srt", "tmx", "vtt", "xliff"]
    assert OPTIONS.source_language == "en"
