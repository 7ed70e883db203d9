"""The text of a document is translated, and every other byte stays."""

import io
import re
import zipfile
from collections.abc import Callable

import lxml.etree
import lxml.html
import polars as pl
import pytest
from support.documents import (
    DOCUMENTS,
    HTML,
    MARKDOWN,
    OPTIONS,
    PO,
    SPLICED_IN_PLACE,
    SRT,
    TMX,
    VTT,
    XLIFF,
    XLIFF_2,
    docx,
    opened,
    translated,
)

from nmt_core.documents.document import Options, Translated
from nmt_core.errors import DataError
from nmt_core.formats.exchange import read_tmx, read_xliff
from nmt_core.formats.gettext import read_po
from nmt_core.formats.layout import Layout
from nmt_core.formats.streams import ByteStream

LAYOUT = Layout("en", "de", 10_000)


def pairs(read: Callable[[ByteStream, Layout], object], content: bytes) -> list[tuple[str, str, str | None]]:
    """Source, target and fault of each pair, as the reader of training text finds them."""
    tables = read(ByteStream("a", io.BytesIO(content)), LAYOUT)
    return pl.concat(tables).select("source", "target", "fault").rows()  # type: ignore[arg-type]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_without_translations_a_document_stays_as_it_is(name: str) -> None:
    form, content = DOCUMENTS[name]
    document = opened(content, form)
    assert document.segments
    assert document.splice([None] * len(document.segments)).content == content


@pytest.mark.parametrize("name", SPLICED_IN_PLACE)
def test_translations_that_are_the_source_leave_a_document_as_it_is(name: str) -> None:
    form, content = DOCUMENTS[name]
    assert translated(content, form, str) == content


def test_html() -> None:
    shown = (
        HTML.replace(b"A &amp; B</title>", b"A &amp; B</title>")
        .replace(b"Click <b>here</b> to see the\r\n  <a href", b"CLICK <b>HERE</b> TO SEE THE <a href")
        .replace(b"manual page</a>&nbsp;or use", "MANUAL PAGE</a>\xa0OR USE".encode())
        .replace(b"now.</p>", b"NOW.</p>")
        .replace(b"<li>one<li>two <!-- c --> three<img", b"<li>ONE<li>TWO <!-- c --> THREE<img")
        .replace(b"a < b", b"A &lt; B")
        .replace(b"cell<td>&#252;ber", "CELL<td>ÜBER".encode())
    )
    assert translated(HTML, "html").decode() == shown.decode()


def test_a_page_in_another_charset_keeps_it_and_gets_references() -> None:
    page = '<meta charset="iso-8859-1"><p>über</p><p>\x93no'.encode("latin-1")
    spliced = translated(page, "html", lambda text: f"{text} \N{EURO SIGN}")
    assert spliced == '<meta charset="iso-8859-1"><p>über &#8364;</p><p>\x93no &#8364;'.encode("latin-1")
    broken = b"<p>one</p><p>\xff two</p>"
    assert [one.fault for one in opened(broken, "html").segments] == [None, "invalid_utf8"]
    assert translated(broken, "html") == b"<p>ONE</p><p>\xff two</p>"


@pytest.mark.parametrize("charset", ["utf-16", "utf-8-sig", "utf-16-be"])
@pytest.mark.parametrize("form", ["html", "srt", "markdown"])
def test_the_byte_order_mark_and_the_charset_stay(form: str, charset: str) -> None:
    text = {"html": "<p>one</p>\r\n", "srt": "1\r\n00:00:01,000 --> 00:00:02,000\r\none\r\n", "markdown": "# one\r\n"}
    content = text[form].encode(charset)
    assert translated(content, form) == text[form].replace("one", "ONE").encode(charset)


def test_po() -> None:
    spliced = translated(PO, "po")
    same = spliced.replace(rb'msgstr "THE \"%S\" IS\tA <b>DOG</b>\n"', b'msgstr ""')
    same = same.replace(b'msgstr[0] "%D FILE"', b'msgstr[0] ""').replace(b'msgstr[1] "%D FILES"', b'msgstr[1] ""')
    same = same.replace(b'#, c-format\nmsgid ""', b'#, fuzzy, c-format\nmsgid ""')
    assert same.replace(b'msgstr ""\n"LINE ONE\\n"\n"  LINE TWO"', b'msgstr ""') == PO
    rows = pairs(read_po, spliced)
    assert ('the "%s" is\ta <b>dog</b>', 'THE "%S" IS\tA <b>DOG</b>', None) in rows
    assert ("%d files", "%D FILES", None) in rows and ("nearly", "beinahe", "fuzzy") in rows
    assert ("line one\n  line two", "LINE ONE\n  LINE TWO", None) in rows


def test_po_for_review_and_anew() -> None:
    spliced = translated(PO, "po", options=OPTIONS.model_copy(update={"for_review": True}))
    assert spliced.count(b"fuzzy") == 4 and b'#, fuzzy\nmsgctxt "menu"' in spliced
    assert b'#, fuzzy, c-format\nmsgid "the' in spliced
    fuzzy = translated(PO, "po", options=OPTIONS.model_copy(update={"redo": "fuzzy"}))
    assert b'\n\nmsgid "nearly"\nmsgstr "NEARLY"' in fuzzy and b'"fertig"' in fuzzy
    assert b'msgstr "DONE"' in translated(PO, "po", options=OPTIONS.model_copy(update={"redo": "all"}))


def test_plural_forms_of_other_languages() -> None:
    head = 'msgid ""\nmsgstr "Plural-Forms: nplurals={}; plural={};\\n"\n\nmsgid "file"\nmsgid_plural "files"\n'
    korean = head.format(1, 0) + 'msgstr[0] ""\n'
    assert translated(korean, "po").decode() == korean.replace('msgstr[0] ""', 'msgstr[0] "FILES"')
    polish = head.format(3, "(n==1 ? 0 : n==2 ? 1 : 2)") + 'msgstr[0] ""\nmsgstr[1] "x"\nmsgstr[2] ""\n'
    done = translated(polish, "po").decode()
    assert done.endswith('msgstr[0] "FILE"\nmsgstr[1] "x"\nmsgstr[2] "FILES"\n')


def test_a_long_message_is_wrapped_as_gettext_does() -> None:
    long = "word " * 40
    po = f'msgid ""\n"{long}"\n"{long}"\nmsgstr ""\n'
    spliced = translated(po, "po").decode()
    lines = spliced.partition('msgstr ""\n')[2].splitlines()
    assert len(lines) > 4 and all(len(line) <= 79 for line in lines)
    assert pairs(read_po, spliced.encode())[0][:2] == ((long * 2).strip(), (long * 2).strip().upper())


def test_a_charset_without_the_letters_leaves_the_entry_and_says_so() -> None:
    po = b'msgid ""\nmsgstr "Content-Type: text/plain; charset=iso-8859-1\\n"\n\nmsgid "one"\nmsgstr ""\n'
    document = opened(po, "po")
    assert document.splice([Translated("하나")]) == (po, frozenset({0}))
    ascii_po = po.replace(b"iso-8859-1", b"US-ASCII")
    assert opened(ascii_po, "po").splice([Translated("übel")]) == (ascii_po, frozenset({0}))
    assert document.splice([Translated("übel")]).content.endswith('msgstr "übel"\n'.encode("latin-1"))


def test_xliff() -> None:
    spliced = translated(XLIFF, "xliff")
    lxml.etree.fromstring(spliced)
    assert [row for row in pairs(read_xliff, spliced) if not row[2]] == [
        ("Hello big & wide world", "HELLO BIG & WIDE WORLD", None),
        ("The cat", "THE CAT", None),
        ("A dog", "Ein Hund", None),
        ("A cow", "A COW", None),
        ("Press Enter.", "PRESS ENTER.", None),
    ]
    new = b'\n    <target>HELLO <g id="1">BIG &amp; WIDE</g> WORLD<x id="2"/></target>'
    assert new in spliced and b'<target state="translated">THE CAT</target>' in spliced
    assert (
        spliced.replace(new, b"")
        .replace(b'"translated">THE CAT</target>', b'"new"/>')
        .replace(b'"translated">A COW', b'"needs-translation">A cow')
        .replace(b'PRESS <bpt id="1">&lt;b></bpt>ENTER<ept id="1">&lt;/b></ept>.', b"")
        == XLIFF
    )
    review = translated(XLIFF, "xliff", options=OPTIONS.model_copy(update={"for_review": True}))
    assert review.count(b'state="needs-review-translation"') == 4


def test_xliff_2_names_its_target_language_and_state() -> None:
    spliced = translated(XLIFF_2, "xliff")
    assert b'srcLang="en" trgLang="de"><file' in spliced and b'<segment state="translated">' in spliced
    assert b'</source><target>HELLO <pc id="1">WIDE</pc> WORLD</target>' in spliced
    assert spliced.count(b"<target>") == 2 and b"<ignorable><source>not this</source></ignorable>" in spliced


def test_tmx() -> None:
    spliced = translated(TMX, "tmx")
    new = """
    <tuv xml:lang="de">
      <seg>PRESS <bpt i="1">&lt;b></bpt>ENTER<ept i="1">&lt;/b></ept> NOW — GO.</seg>
    </tuv>"""
    assert spliced.replace(new.encode(), b"").replace(b"<seg>A COW</seg>", b"<seg/>") == TMX
    assert [row[1] for row in pairs(read_tmx, spliced)] == ["PRESS ENTER NOW — GO.", "Ein Hund", "A COW", ""]
    assert [one.fault for one in opened(TMX, "tmx").segments] == [None, "already_translated", None, "missing_language"]


def test_subtitles() -> None:
    assert translated(SRT, "srt") == (
        SRT.replace(b"Hello there,\r\nmy", b"HELLO THERE,\r\nMY").replace(b"friend", b"FRIEND")
    ).replace(b"Hi.", b"HI.").replace(b"Ho.", b"HO.")
    shown = VTT.replace(b"Hello", b"HELLO").replace(b"good\nbye", b"GOOD\nBYE")
    assert translated(VTT, "vtt") == shown
    assert translated(VTT, "vtt", lambda _: "--> & <c>").count(b"--&gt;") == 1


def test_markdown() -> None:
    lines = translated(MARKDOWN, "markdown").decode().split("\n")
    assert lines[:4] == ["---", "title: not this", "---", "# A *NICE* TITLE"]
    assert lines[5:7] == [
        'SOME TEXT WITH `code`, A [LINK TO IT](http://x.y/z "t"), http://a.b/c AND **BOLD WORDS** HERE.  ',
        r"NEXT LINE [REF][r] AND [SHORT][short]. 2 \* 3 ![image](i.png) <br> \*NO\*[^1]",
    ]
    assert lines[8] == "> QUOTED TEXT OVER LINES"
    assert lines[10:12] == ["1. ITEM ONE", "   - ITEM TWO"]
    assert "| CELL ONE | `x` |" in lines and "    indented code" in lines and "echo not this" in lines
    assert "HELLO <b>YOU</b>" in lines and "SETEXT" in lines and '[r]: http://a.b "not this"' in lines


@pytest.mark.parametrize("text", ["# one", "- one", "1. one", "> one", "a *b* [c] `d` <e> &amp; \\ f_g _h_"])
def test_a_translation_is_no_markup_of_markdown(text: str) -> None:
    from markdown_it import MarkdownIt

    spliced = translated("one two\n", "markdown", lambda _: text).decode()
    assert re.sub("</?p>|\n", "", MarkdownIt("commonmark").render(spliced)) == lxml.html.tostring(
        lxml.html.fromstring(f"<p>{text.replace('&', '&amp;').replace('<', '&lt;')}</p>"), encoding="unicode"
    ).removeprefix("<p>").removesuffix("</p>")


def test_the_box_of_a_task_stays_a_box() -> None:
    content = "- [ ] one\n- [x] two\n  [x] three\n\n[x] four\n"
    assert translated(content, "markdown").decode() == "- [ ] ONE\n- [x] TWO \\[X\\] THREE\n\n\\[X\\] FOUR\n"


def test_a_nul_in_markdown_hides_no_text() -> None:
    assert translated("one\0 two\n\nthree\n", "markdown") == b"ONE\0 TWO\n\nTHREE\n"


def test_a_tag_that_the_end_of_a_page_cuts_off_is_no_text() -> None:
    assert translated("<p>one</p><p>two <a href='x", "html") == b"<p>ONE</p><p>TWO <a href='x"
    assert translated("<p>1 < 2 and a<", "html") == b"<p>1 &lt; 2 AND A&lt;"


def parts_of(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        return {entry.filename: archive.read(entry) for entry in archive.infolist()}


def words_in(part: bytes) -> list[str]:
    root = lxml.etree.fromstring(part)
    texts = lambda element: "".join(element.xpath(".//*[local-name()='t']/text()"))  # noqa: E731
    return [texts(paragraph) for paragraph in root.xpath("//*[local-name()='p']")]


def test_docx() -> None:
    content = docx()
    before, after = parts_of(content), parts_of(translated(content, "docx"))
    assert list(before) == list(after)
    assert [name for name in before if before[name] != after[name]] == ["word/document.xml", "word/header1.xml"]
    body = after["word/document.xml"]
    assert words_in(body) == [text.upper() for text in words_in(before["word/document.xml"])]
    assert words_in(after["word/header1.xml"]) == ["A HEADER"]
    bold, link = b"<w:r><w:rPr><w:b/></w:rPr><w:t", b'<w:hyperlink r:id="1"><w:r><w:rPr><w:u/></w:rPr><w:t'
    assert bold + b' xml:space="preserve">HERE</w:t></w:r>' in body
    assert link + b' xml:space="preserve">THE PAGE</w:t></w:r></w:hyperlink>' in body
    assert body.count(b"<w:tab/>") == body.count(b"<w:drawing/>") == 1 and body.count(b"<w:fldChar") == 2
    with zipfile.ZipFile(io.BytesIO(translated(content, "docx"))) as archive:
        assert archive.comment == b"a comment" and archive.getinfo("word/media/a.png").date_time[0] == 2001


WRONG: dict[str, tuple[str, bytes, str]] = {
    "a line of PO": ("po", b'msgid "a"\nmsgstr ""\nmsgst "x"\n', r"a\.po, line 3: 'msgst \"x\"' is not a line of a PO"),
    "a charset of PO": ("po", b'msgid ""\nmsgstr "charset=klingon\\n"\n', r"unknown charset 'klingon'"),
    "XLIFF cut off": ("xliff", XLIFF[:300], r"a\.xliff, line 6: is not well-formed XML .*: repair"),
    "other XML": ("xliff", b"<a/>", r"a\.xliff: has the root element <a>, not <xliff>"),
    "TMX with an entity": ("tmx", b'<!DOCTYPE tmx [<!ENTITY a "b">]><tmx>&a;</tmx>', r"declares the entity 'a'"),
    "bytes in XML": ("tmx", b"<tmx>\n\xff</tmx>", r"a\.tmx, line 2: has bytes that are not in its charset"),
    "other languages": ("xliff", XLIFF.replace(b'"en"', b'"fr"'), r"line 3: is a translation from 'fr', and the model"),
    "SRT without a time": ("srt", b"Hello\n", r"a\.srt: has no line such as 00:00:01,000 --> "),
    "VTT without a head": ("vtt", SRT, r"a\.vtt, line 1: does not begin with WEBVTT"),
    "no zip": ("docx", b"Hello", r"a\.docx: cannot be read as \.docx .*save it again"),
    "half of a zip": ("docx", docx()[:-200], r"a\.docx: cannot be read as \.docx"),
    "damaged XML": ("docx", docx("<w:p>"), r"a\.docx, word/document\.xml, line 2: is not well-formed"),
    "a zip": ("html", docx(), r"a\.html: is a zip archive, not a html document"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_read_is_one_error_with_the_place(case: str) -> None:
    form, content, message = WRONG[case]
    with pytest.raises(DataError, match=message):
        opened(content, form)


def test_options_of_a_job_are_small() -> None:
    assert Options().model_dump() == {
        "source_language": "",
        "target_language": "",
        "redo": "none",
        "for_review": False,
    }
