"""Read documents, and write their translations into them. Every byte that is no translation stays as it is.

A format reads the bytes of a document into segments, which are texts without mark-up, and edits, which are the places
where their translations go (`document.py`). No format is parsed and written anew: the translations are spliced into the
original text.

document.py    segments, tags, edits, and how translations are spliced in
builder.py     the text and the tags of a segment, as a parser finds them
placing.py     the tags of a segment in its translation, by the alignment of the words
charset.py     text that gives the same bytes when it is encoded again
languages.py   the languages that a document states
opening.py     the format of a document, by its name or its content
po.py          gettext PO
inline.py, xml_events.py, xliff.py, tmx.py    XLIFF 1.2 and 2, and TMX
html.py        HTML, also for the HTTP service
markdown.py    Markdown
tagged.py, subtitles.py    SRT and WebVTT
docx.py        Word documents

White space between words counts as one space. Text without a letter is no segment. A segment with bytes that are not in
the charset of its document has a fault and stays as it is.
"""
