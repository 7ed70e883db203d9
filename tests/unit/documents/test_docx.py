"""Paragraphs as Word writes them: their text is translated, and everything that Word needs around it stays in place."""

import io
import re
import zipfile

import pytest
from support.documents import docx, opened, translated

from nmt_core.documents.document import Translated
from nmt_core.errors import DataError


def run(text: str) -> str:
    return f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>'


def control(properties: str, text: str) -> str:
    return f"<w:sdt><w:sdtPr>{properties}</w:sdtPr><w:sdtContent>{run(text)}</w:sdtContent></w:sdt>"


FORMULA = "<m:oMath><m:sSup><m:e><m:r><m:t>x</m:t></m:r></m:e><m:sup><m:r><m:t>n</m:t></m:r></m:sup></m:sSup></m:oMath>"
NOTE = '<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:footnoteReference w:id="2"/></w:r>'
IN_WORD: dict[str, tuple[str, list[str], str]] = {
    "a formula is no text": (
        run("one ") + FORMULA + run(" two"),
        ["one two"],
        run("ONE ") + FORMULA + run(" ") + run("TWO"),
    ),
    "a control is a pair of tags": (
        run("one ") + control("<w:id/>", "two") + run(" three"),
        ["one two three"],
        run("ONE ") + control("<w:id/>", "TWO") + run(" THREE"),
    ),
    "a control that Word fills stays": (
        run("one ") + control("<w:dataBinding/>", "two") + run(" three"),
        ["one two three"],
        run("ONE ") + control("<w:dataBinding/>", "two") + run(" THREE"),
    ),
    "a simple field is a pair of tags": (
        f"{run('see ')}<w:fldSimple w:instr='REF a'>{run('table')}</w:fldSimple>{run(' one')}",
        ["see table one"],
        f"{run('SEE ')}<w:fldSimple w:instr='REF a'>{run('TABLE')}</w:fldSimple>{run(' ONE')}",
    ),
    "moved text is text where it is now": (
        f"<w:moveFrom>{run('gone ')}</w:moveFrom><w:moveToRangeStart/><w:moveTo>{run('one')}</w:moveTo>{run(' a')}",
        ["one a"],
        f"<w:moveFrom>{run('gone ')}</w:moveFrom><w:moveToRangeStart/><w:moveTo>{run('ONE')}</w:moveTo>{run(' A')}",
    ),
    "a smart tag has properties": (
        f"{run('in ')}<w:smartTag><w:smartTagPr/>{run('Paris')}</w:smartTag>{run(' now')}",
        ["in Paris now"],
        f"{run('IN ')}<w:smartTag><w:smartTagPr/>{run('PARIS')}</w:smartTag>{run(' NOW')}",
    ),
    "tabs and breaks end a segment": (
        "<w:r><w:rPr><w:b/></w:rPr><w:t>one</w:t><w:tab/><w:t>two</w:t><w:br/><w:t>3</w:t><w:tab/><w:t>x</w:t></w:r>",
        ["one", "two", "x"],
        "".join(
            part.replace("[", '<w:r><w:rPr><w:b/></w:rPr><w:t xml:space="preserve">').replace("]", "</w:t></w:r>")
            for part in (
                *("[ONE]", "<w:r><w:rPr><w:b/></w:rPr><w:tab/></w:r>", "[TWO]"),
                *("<w:r><w:rPr><w:b/></w:rPr><w:br/><w:t>3</w:t><w:tab/></w:r>", "[X]"),
            )
        ),
    ),
    "a note stays behind its word": (
        f'{run("the rings")}<w:commentRangeEnd w:id="0"/>{NOTE}{run(" of it")}',
        ["the rings of it"],
        f'{run("THE RINGS")}<w:commentRangeEnd w:id="0"/>{NOTE}{run(" OF IT")}',
    ),
    "the base of a phonetic guide is text": (
        f"<w:r><w:ruby><w:rt>{run('kan')}</w:rt><w:rubyBase>{run('one')}</w:rubyBase></w:ruby></w:r>{run(' two')}",
        ["one two"],
        run("ONE TWO"),
    ),
    "a link that holds a box": (
        f"<w:hyperlink><w:r><w:pict><w:txbxContent><w:p>{run('in')}</w:p></w:txbxContent></w:pict></w:r>{run('out')}</w:hyperlink>",
        ["out", "in"],
        f"<w:hyperlink><w:r><w:pict><w:txbxContent><w:p>{run('IN')}</w:p></w:txbxContent></w:pict></w:r>{run('OUT')}</w:hyperlink>",
    ),
    "space behind a mark": (
        f"<w:r><w:footnoteRef/></w:r>{run(' A note.')}",
        ["A note."],
        f"<w:r><w:footnoteRef/></w:r>{run(' ')}{run('A NOTE.')}",
    ),
}


@pytest.mark.parametrize("case", IN_WORD)
def test_paragraphs_as_word_writes_them(case: str) -> None:
    paragraph, texts, expected = IN_WORD[case]
    document = opened(docx(f"<w:p>{paragraph}</w:p>"), "docx")
    assert [segment.text for segment in document.segments if "header" not in segment.place] == texts
    words = lambda text: Translated(text.upper(), [(n, n) for n in range(len(text.split()))])  # noqa: E731
    done = document.splice([words(segment.text) for segment in document.segments]).content
    body = part_of(done, "word/document.xml").partition("<w:body><w:p>")[2].rpartition("</w:p></w:body>")[0]
    assert re.sub("<w:r>(?:<w:rPr>[^t]*</w:rPr>)?</w:r>", "", body) == expected


def part_of(content: bytes, name: str) -> str:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.read(name).decode()


def with_part(name: str, old: str, new: str, moved_to: str = "") -> bytes:
    """The usual document with a change in one of its files, which may get another name."""
    content = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(docx())) as archive, zipfile.ZipFile(content, "w") as other:
        for entry in archive.namelist():
            text = archive.read(entry)
            changed = text.replace(old.encode(), new.encode()) if entry == name else text
            other.writestr(moved_to if moved_to and entry == "word/document.xml" else entry, changed)
    return content.getvalue()


def test_the_body_is_found_by_its_content_type() -> None:
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    types = f'<Types><Override PartName="/word/main.xml" ContentType="{kind}"/></Types>'
    content = with_part("[Content_Types].xml", "<Types/>", types, moved_to="word/main.xml")
    assert "ALL BOLD" in part_of(translated(content, "docx"), "word/main.xml")


def test_a_control_that_word_fills_stays_with_its_paragraphs() -> None:
    paragraph = "<w:p><w:r><w:t>a title</w:t></w:r></w:p>"
    body = f"<w:sdt><w:sdtPr><w:dataBinding/></w:sdtPr><w:sdtContent>{paragraph}</w:sdtContent></w:sdt>{paragraph}"
    segments = [segment for segment in opened(docx(body), "docx").segments if "header" not in segment.place]
    assert [segment.place for segment in segments] == ["word/document.xml, paragraph 2"]


def test_a_file_that_names_word_by_another_prefix_is_refused() -> None:
    with pytest.raises(DataError, match=r"word/header1\.xml: has no prefix 'w' .* save it again"):
        opened(with_part("word/header1.xml", "xmlns:w=", "xmlns:v="), "docx")
