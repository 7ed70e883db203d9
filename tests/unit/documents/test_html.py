"""The text of HTML is translated, and everything else stays as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt_core.documents.document import Translated
from nmt_core.documents.html import filled, html_of


def shouted(markup: str) -> str:
    found = html_of(markup)
    return filled(found, [Translated(segment.text.upper()) for segment in found.segments])


@pytest.mark.parametrize(
    ("markup", "right"),
    [
        ("plain text", "PLAIN TEXT"),
        ("<p>one</p>\n<p> two &amp; three </p>", "<p>ONE</p>\n<p> TWO &amp; THREE </p>"),
        ('<a href="x>y" title=t>in</a><br/>out<br>', '<a href="x>y" title=t>IN</a><br/>OUT<br>'),
        ("<script>var a = 1;</script>b<STYLE>c</STYLE>", "<script>var a = 1;</script>B<STYLE>c</STYLE>"),
        ("a <code>b <i>c</i></code> d", "A <code>b <i>c</i></code> D"),
        ('<p translate="no">a <br> b</p>c', '<p translate="no">a <br> b</p>C'),
        ('<i class="x notranslate">a</i>b', '<i class="x notranslate">a</i>B'),
        ("<!-- a --><!DOCTYPE html>b<?c d?>", "<!-- a --><!DOCTYPE html>B<?c d?>"),
        ("a &lt;b&gt; &#8364; &copy", "A &lt;B&gt; \N{EURO SIGN} \N{COPYRIGHT SIGN}"),
        ("", ""),
        (" \n ", " \n "),
        ("<p>a<p>b", "<p>A<p>B"),
        ("a < b <", "A &lt; B &lt;"),
    ],
)
def test_text_is_translated_and_the_rest_stays(markup: str, right: str) -> None:
    assert shouted(markup) == right


_TAGS = st.sampled_from(
    ["<p>", "</p>", "<b a='>'>", "</b>", "<br>", "<code>", "</code>", "<!-- x -->", "&amp;", "&#65;", " "]
)


@given(st.lists(st.one_of(_TAGS, st.text("ab <&>;\n\t/é"))).map("".join))
def test_texts_that_come_back_as_they_were_leave_the_page_as_it_was(markup: str) -> None:
    found = html_of(markup)
    assert filled(found, [Translated(segment.text) for segment in found.segments]) == markup
    assert all(segment.text == segment.text.strip(" ") for segment in found.segments)
