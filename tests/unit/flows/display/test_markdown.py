"""Foreign text in our Markdown is shown as it was written. `ui/test_text_of_others.py` checks Prefect and MLflow."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from flows.display.markdown import cells, in_mlflow, link, plain
from flows.display.reports import markdown

HOSTILE = (
    "![x](http://evil.example/t.gif)",
    "<img src=http://evil.example/t.gif>",
    "<script>alert(1)</script>",
    "<!-- hidden -->",
    "[click](javascript:alert(1))",
    "[x][y]",
    "<http://evil.example/>",
    "http://evil.example/a_b_c",
    "www.evil.example",
    "somebody@evil.example",
    "a | b",
    "`code` **bold** _emphasis_ ~~struck~~",
    "# heading",
    "#heading",
    "- point",
    "1. point",
    "---",
    "&lt;b&gt; &amp; &copy;",
    "\\[x](y) \\\\",
    "{#id .class}",
    "$x^2$",
)
render = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render


def texts_of(page: str) -> str:
    """Return the text that a reader sees."""
    return " ".join(html.unescape(re.sub("<[^>]*>", " ", page)).split())


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_as_it_was_written(text: str) -> None:
    page = render(markdown("evaluate", {"items_in": 1, "samples": [{"source": text, "other": text}], "of": {text: 1}}))
    tags = set(re.findall(r"<([a-z0-9]+)", page))
    assert tags <= {"h1", "h2", "table", "thead", "tbody", "tr", "th", "td", "p"}
    assert texts_of(page).count(" ".join(text.split())) == 3
    assert len(re.findall("<td", page)) == 2 + 2 + 2, "no text begins a cell of its own"


@pytest.mark.parametrize("text", HOSTILE)
def test_so_it_is_in_a_list_and_a_paragraph(text: str) -> None:
    for around, tags in (("{}", {"p"}), ("- {}", {"ul", "li"}), ("Now {}, and", {"p"})):
        for escaped in (plain(text), in_mlflow(text)):
            page = render(around.format(escaped))
            assert set(re.findall(r"<([a-z0-9]+)", page)) <= tags
            assert texts_of(page) == texts_of(html.escape(around.removeprefix("- ").format(text)))


def test_the_texts_are_live_without_escapes() -> None:
    live = "".join(render(text) for text in HOSTILE)
    assert all(tag in live for tag in ("<img", "<script>", "<a href", "<h1>", "<ul>", "<ol>", "<hr", "<code>"))


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=40))
def test_any_text_is_shown_as_it_was_written(text: str) -> None:
    page = render(f"x {plain(text)} x")
    assert re.findall("<[^>]*>", page) == ["<p>", "</p>"]
    assert " ".join(html.unescape(page[3:-5]).split()) == " ".join(f"x {text} x".split())


def test_numbers_and_plain_words_need_no_escape() -> None:
    for text in ("-0.30 to +1.21", "1,234.5", "A TOY - English to Korean (quickstart).", "3.2 GB", "Das ist gut!"[:-1]):
        assert plain(text) == text


def test_the_address_of_a_corpus_is_a_link_if_it_is_one_of_the_web() -> None:
    assert '<a href="https://opus.example/a_b">https://opus.example/a_b</a>' in render(link("https://opus.example/a_b"))
    for address in ("javascript:alert(1)", "https://a.example/><script>", "https://a.example/ ![x](y)"):
        assert set(re.findall(r"<([a-z0-9]+)", render(link(address)))) == {"p"}


def test_cells_of_a_table_artifact() -> None:
    assert cells([{"why": "![x](y)", "size": 3, "is": None}]) == [{"why": r"\!\[x\](y)", "size": 3, "is": None}]
