"""Documents of every format for the tests, and the translations that tests give them."""

import io
import zipfile
from collections.abc import Callable

from nmt_core.documents.document import Document, Options, Translated
from nmt_core.documents.opening import open_document

OPTIONS = Options(source_language="en", target_language="de")
WORDS = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:r="http://r" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
)

HTML = b"""<!DOCTYPE html>\r
<html><head><title>A &amp; B</title><script>var a = "<b>x</b>";</script></head>\r
<body translate=yes><p>Click <b>here</b> to see the\r
  <a href="x>y">manual page</a>&nbsp;or use <code>ls &lt;dir&gt;</code> now.</p><!-- no -->\r
<ul><li>one<li>two <!-- c --> three<img src=a>.</ul><pre>  x y</pre>a < b\r
<p class="x notranslate">stays <i>as it is</i></p><table><tr><td>cell<td>&#252;ber</table></body></html>\r
"""

PO = rb"""# A translator.
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

#. a comment
#: a.c:1
#, c-format
msgid "the \"%s\" is\ta <b>dog</b>\n"
msgstr ""

msgctxt "menu"
msgid "%d file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""

msgid "done"
msgstr "fertig"

#, fuzzy
msgid "nearly"
msgstr "beinahe"

#, fuzzy, c-format
msgid ""
"line one\n"
"  line two"
msgstr ""

msgid "%s: %d"
msgstr ""

#~ msgid "old"
#~ msgstr ""
"""

XLIFF = b"""<?xml version="1.0" encoding="utf-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file source-language="en" target-language="de-AT" original="a" datatype="plaintext"><body>
  <trans-unit id="1">
    <source>Hello <g id="1">big &amp; wide</g> world<x id="2"/></source>
    <note>not this</note>
  </trans-unit>
  <trans-unit id="2"><source>The cat</source><target state="new"/></trans-unit>
  <trans-unit id="3"><source>A dog</source><target>Ein Hund</target></trans-unit>
  <trans-unit id="4"><source>A cow</source><target state="needs-translation">A cow</target></trans-unit>
  <trans-unit id="5" translate="no"><source>Name</source></trans-unit>
  <trans-unit id="6"><source>Press <bpt id="1">&lt;b></bpt>Enter<ept id="1">&lt;/b></ept>.</source><target></target>
    <alt-trans><source>Press</source><target>Druck</target></alt-trans></trans-unit>
</body></file></xliff>
"""

XLIFF_2 = b"""<?xml version='1.0'?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en"><file id="f">
<unit id="1"><segment state="initial"><source>Hello <pc id="1">wide</pc> world</source></segment></unit>
<unit id="2"><segment id="s"><source>A dog</source><target>Ein Hund</target></segment>
<ignorable><source>not this</source></ignorable></unit>
<unit id="3" translate="no"><segment><source>Name</source></segment></unit>
</file></xliff>
"""

TMX = b"""<?xml version="1.0"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en"/><body>
  <tu>
    <tuv xml:lang="en-US">
      <seg>Press <bpt i="1">&lt;b></bpt>Enter<ept i="1">&lt;/b></ept> now &#8212; go.</seg>
    </tuv>
  </tu>
  <tu><tuv xml:lang="en"><seg>A dog</seg></tuv><tuv xml:lang="de"><seg>Ein Hund</seg></tuv></tu>
  <tu><tuv xml:lang="en"><seg>A cow</seg></tuv><tuv xml:lang="DE-de"><seg/></tuv></tu>
  <tu><tuv xml:lang="fr"><seg>Un chien</seg></tuv></tu>
</body></tmx>
"""

SRT = (
    b"\xef\xbb\xbf1\r\n00:00:01,000 --> 00:00:02,500\r\n<i>Hello there,\r\nmy {\\an8}friend.</i>\r\n\r\n"
    b"2\r\n00:00:03,000 --> 00:00:04,000\r\n- Hi.\r\n- Ho.\r\n\r\n3\r\n00:00:05,000 --> 00:00:06,000\r\n2001\r\n"
)

VTT = b"""WEBVTT - x

NOTE not this

STYLE
::cue { color: red }

intro
01:01.000 --> 01:02.000 align:start
<v Bob>Hello &amp; <00:01:01.500>good
bye
"""

MARKDOWN = b"""---
title: not this
---
# A *nice* title

Some text with `code`, a [link to it](http://x.y/z "t"), http://a.b/c and **bold
words** here.  
Next line [ref][r] and [short]. 2 * 3 ![image](i.png) <br> \\*no\\*[^1]

> quoted text
> over lines

1. item one
   - item two

| A word | B |
|---|:-:|
| cell one | `x` |

    indented code

```sh
echo not this
```

<div>
Hello <b>you</b>
</div>

Setext
======

[r]: http://a.b "not this"
[short]: http://a.c
"""  # noqa: W291

BOLD = "<w:rPr><w:b/></w:rPr>"
BODY = f"""<w:p w:rsidR="1"><w:pPr><w:rPr><w:b/></w:rPr></w:pPr><w:r><w:t xml:space="preserve">Click </w:t></w:r>\
<w:r>{BOLD}<w:t>he</w:t></w:r><w:proofErr w:type="spellStart"/><w:r w:rsidR="2">{BOLD}<w:t>re</w:t></w:r>\
<w:r><w:t xml:space="preserve"> to see </w:t></w:r><w:hyperlink r:id="1"><w:r><w:rPr><w:u/></w:rPr><w:t>the page</w:t>\
</w:r></w:hyperlink><w:r><w:tab/><w:t>now &amp; then.</w:t><w:drawing/></w:r></w:p>
<w:p><w:r>{BOLD}<w:t>All bold</w:t></w:r></w:p><w:p/><w:p><w:r><w:fldChar w:fldCharType="begin"/></w:r>\
<w:r><w:instrText>PAGE</w:instrText></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r><w:r><w:t>a page</w:t></w:r></w:p>
<w:sdt><w:sdtContent><w:p><w:sdt><w:sdtPr><w:id/></w:sdtPr><w:sdtContent><w:r><w:t>in a field</w:t></w:r>\
</w:sdtContent></w:sdt><w:r><w:pict><w:txbxContent><w:p><w:r><w:t>in a box</w:t></w:r></w:p></w:txbxContent>\
</w:pict></w:r></w:p></w:sdtContent></w:sdt>"""


def docx(body: str = BODY) -> bytes:
    """A Word document with this body."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = b"a comment"
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr(
            "word/document.xml", f'<?xml version="1.0"?>\r\n<w:document {WORDS}><w:body>{body}</w:body></w:document>'
        )
        archive.writestr(zipfile.ZipInfo("word/media/a.png", (2001, 2, 3, 4, 5, 6)), b"\0\1" * 99)
        archive.writestr("word/header1.xml", f"<w:hdr {WORDS}><w:p><w:r><w:t>a header</w:t></w:r></w:p></w:hdr>")
    return content.getvalue()


DOCUMENTS: dict[str, tuple[str, bytes]] = {
    "html": ("html", HTML),
    "po": ("po", PO),
    "xliff": ("xliff", XLIFF),
    "xliff 2": ("xliff", XLIFF_2),
    "tmx": ("tmx", TMX),
    "srt": ("srt", SRT),
    "vtt": ("vtt", VTT),
    "markdown": ("markdown", MARKDOWN),
    "docx": ("docx", docx()),
}
"""Format and content of each document."""
SPLICED_IN_PLACE = ("html", "srt", "vtt", "markdown", "docx")
"""Documents in which a translation replaces its source."""


def opened(content: bytes | str, form: str, options: Options = OPTIONS) -> Document:
    return open_document(content if isinstance(content, bytes) else content.encode(), form, f"a.{form}", options)


def translated(
    content: bytes | str, form: str, translate: Callable[[str], str] = str.upper, options: Options = OPTIONS
) -> bytes:
    """The document with a translation of each segment that has no fault."""
    document = opened(content, form, options)
    found = [None if segment.fault else Translated(translate(segment.text)) for segment in document.segments]
    return document.splice(found).content
