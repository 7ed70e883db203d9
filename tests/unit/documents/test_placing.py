"""Tags go where the alignment says, and none is ever lost."""

import html
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.documents import opened

from nmt_core.documents.document import Translated


def placed(page: str, translation: str, links: str = "") -> str:
    """HTML of one segment with its translation."""
    [segment] = opened(page, "html").segments
    assert segment.text
    pairs = [tuple(map(int, link.split("-"))) for link in links.split()]
    return opened(page, "html").splice([Translated(translation, pairs)]).content.decode()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("page", "translation", "links", "right"),
    [
        ("a <b>red</b> house", "une maison rouge", "0-0 1-2 2-1", "une maison <b>rouge</b>"),
        ("<b>red</b> <i>house</i>", "maison rouge", "0-1 1-0", "<i>maison</i> <b>rouge</b>"),
        ("see <a>the page</a>, please", "bitte die Seite ansehen", "0-3 1-1 2-2 3-0", "bitte <a>die Seite</a> ansehen"),
        ("<b>Note</b>: it is", "Hinweis: es ist", "0-0 1-1 2-2", "<b>Hinweis</b>: es ist"),
        ("<a>one <b>two</b></a> three", "drei zwei eins", "0-2 1-1 2-0", "drei <a><b>zwei</b> eins</a>"),
        ("a <b>b</b> c d", "A B C D", "", "A <b>B</b> C D"),
        ("one <b>two</b> three", "", "", ""),
        ("one <b>two</b>", "eins", "", "<b>eins</b>"),
        ("use <code>ls -l</code> now", "jetzt ls -l nutzen", "0-3", "jetzt <code>ls -l</code> nutzen"),
        ("use <code>ls</code> now", "jetzt das nutzen", "0-2 1-1 2-0", "jetzt <code>ls</code> nutzen"),
        ("use <code>ls</code> now", "jetzt nutzen", "", "jetzt <code>ls</code> nutzen"),
        ("<code>x</code> or <code>x.y</code>", "x.y oder", "", "<code>x</code> <code>x.y</code> oder"),
        ("see <img> here", "hier sehen", "0-1 1-0", "<img> hier sehen"),
        ("one<img> two", "zwei eins", "0-1 1-0", "zwei eins<img>"),
        ("one three<img>.", "eins drei.", "", "eins drei<img>."),
        ("one <b>two</b> three four", "一二三四五六七八", "", "一二<b>三</b>四五六七八"),
    ],
)
def test_tags_follow_their_words(page: str, translation: str, links: str, right: str) -> None:
    assert placed(page, translation, links) == (right or page)


PIECES = st.sampled_from(
    ["one ", "two", " ", "three. ", "<b>", "</b>", "<i>", "</i>", "<img>", "<code>x y</code>", ", "]
)
NUMBERS = st.integers(0, 6)


@given(st.lists(PIECES, max_size=12), st.text("ab. 中", max_size=16), st.lists(st.tuples(NUMBERS, NUMBERS)))
def test_no_tag_is_lost_and_no_word_of_the_translation(
    pieces: list[str], translation: str, links: list[tuple[int, int]]
) -> None:
    document = opened("".join(pieces), "html")
    if not document.segments or not translation.strip():
        return
    done = document.splice([Translated(translation, links)] * len(document.segments)).content.decode()
    tags = [piece for piece in pieces if piece.startswith("<")]
    assert Counter(tag for tag in tags if tag in done) == Counter(tags)
    assert all(done.count(tag) == count for tag, count in Counter(tags).items())
    if not any(piece.startswith("<code>") for piece in pieces):
        [*texts] = (one for one in [html.unescape(done)])
        plain = texts[0]
        for tag in set(tags):
            plain = plain.replace(tag, "")
        assert "".join(translation.split()) in "".join(plain.split()) or done == "".join(pieces)
