"""Terms are found where their words are, in any script and case, and a translation contains them or not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt_core.errors import ConfigError, DataError
from nmt_core.spelling import AS_IT_IS, Spelling
from nmt_core.terms.borders import begins_word, ends_word
from nmt_core.terms.glossary import (
    Occurrence,
    Term,
    TermFinder,
    identity_of,
    lemmatiser,
    missing,
    terms_from,
    terms_of,
)


def found(text: str, *sources: str, **options: bool) -> list[str]:
    terms = [term for source in sources for term in terms_from(source, "x", **options)]
    return [text[one.start : one.end] for one in TermFinder(terms, AS_IT_IS).find(text)]


@pytest.mark.parametrize(
    ("text", "sources", "expected"),
    [
        ("A hard disk, and hard disks.", ["hard disk"], ["hard disk"]),
        ("Hard Disk? HARD DISK!", ["hard disk"], ["Hard Disk", "HARD DISK"]),
        ("(disk) disk-drive \u201edisk\u201c disk's", ["disk"], ["disk"] * 4),
        ("diskette, mydisk, disk2, disk_", ["disk"], []),
        ("a hard disk drive", ["disk", "hard disk", "hard", "disk drive"], ["hard disk"]),
        ("hard disks", ["hard disk", "hard"], ["hard"]),
        ("Straße, STRASSE, strasse", ["Straße"], ["Straße", "STRASSE", "strasse"]),
        ("Maß", ["mas", "s"], []),
        ("It is IT.", ["IT"], ["IT"]),
        ("It is it.", ["it"], ["It", "it"]),
        ("İstanbul is a disk", ["disk"], ["disk"]),
        ("磁盘驱动器和磁盘", ["磁盘"], ["磁盘", "磁盘"]),
        ("ハードディスクの", ["ディスク"], ["ディスク"]),
        ("ฮาร์ดดิสก์ใหม่", ["ดิสก์"], ["ดิสก์"]),
        ("ฮาร์ดดิสก์ใหม่", ["ดิสก"], []),
        ("디스크를 하드디스크", ["디스크"], ["디스크"]),
        ("Debian은", ["Debian"], ["Debian"]),
        ("用Debian系统", ["Debian"], ["Debian"]),
        ("C++ and C", ["C++"], ["C++"]),
        ("x 한 disk\u0301", ["disk"], []),
        ("disk | disc", ["disk | disc"], ["disk", "disc"]),
        ("", ["disk"], []),
    ],
)
def test_terms_are_found_as_whole_words_of_their_script(text: str, sources: list[str], expected: list[str]) -> None:
    assert found(text, *sources) == expected


def test_case_matters_where_it_is_asked_for() -> None:
    assert found("Disk disk", "disk", exact_case=True) == ["disk"]
    assert found("IT it", "IT", exact_case=False) == ["IT", "it"]
    both = TermFinder([Term("IT", ("EDV",), exact_case=True), Term("it", ("es",))], AS_IT_IS)
    assert [one.targets for one in both.find("it IT It")] == [("es",), ("EDV",), ("es",)]


def test_a_term_without_a_translation_stays_as_it_is_written() -> None:
    [one] = TermFinder([Term("debian")], AS_IT_IS).find("on Debian now")
    assert one == Occurrence(3, 9, ("Debian",))


def test_a_term_is_spelled_like_the_text() -> None:
    finder = TermFinder([Term("caf\u0065\u0301  au\u00a0lait", ("Milchkaffee",))], Spelling("NFC"))
    assert len(finder.find(AS_IT_IS.tidy("Café au lait"))) == 1
    moses = Spelling("NFC", "moses", "en")
    assert len(TermFinder([Term("user\u2019s guide", ("x",))], moses).find(moses.tidy("the user\u2019s guide"))) == 1


def test_inflected_forms_are_found_by_their_lemma() -> None:
    terms = terms_from("hard disk", "Festplatte", inflected=True) + terms_from("go", "gehen")
    finder = TermFinder(terms, Spelling(language="en"))
    text = "Hard disks went, a hard-disk; hard, disks."
    assert [text[one.start : one.end] for one in finder.find(text)] == ["Hard disks"]
    german = TermFinder(terms_from("Haus", "house", inflected=True), Spelling(language="de"))
    text = "In den Häusern des Hauses, Hausboot"
    assert [text[one.start : one.end] for one in german.find(text)] == ["Häusern", "Hauses"]


def test_a_language_without_lemmas_is_refused_with_the_remedy() -> None:
    with pytest.raises(ConfigError, match=r"language 'ko': give the forms in the glossary"):
        lemmatiser("ko")
    assert lemmatiser("de-AT")("Häusern") == "haus"


@pytest.mark.parametrize(
    ("targets", "translation", "expected"),
    [
        (["Festplatte"], "Die Festplatte ist voll.", 0),
        (["Festplatte"], "Die Festplatten sind voll.", 1),
        (["Festplatte", "Festplatten"], "Die Festplatten sind voll.", 0),
        (["festplatte"], "Festplatte", 0),
        (["Festplatte"], "festplatte", 1),
        (["磁盘"], "新磁盘驱动器", 0),
        (["디스크"], "디스크를", 0),
        (["C++"], "In C++.", 0),
    ],
)
def test_a_translation_has_a_term_or_not(targets: list[str], translation: str, expected: int) -> None:
    assert missing([Occurrence(0, 1, tuple(targets))], translation) == expected


def test_a_term_that_occurs_twice_is_needed_twice() -> None:
    twice = [Occurrence(0, 1, ("ab",)), Occurrence(2, 3, ("ab",)), Occurrence(4, 5, ("c",))]
    assert [missing(twice, text) for text in ("ab c ab", "ab c", "", "ab ab")] == [0, 1, 3, 1]
    assert missing([Occurrence(0, 1, ("ab", "ab cd"))] * 2, "ab cd") == 1


def test_terms_of_a_mapping_and_of_lines_are_the_same() -> None:
    expected = (Term("disk", ("Platte", "Scheibe")), Term("Debian"), Term("IT", ("EDV",), exact_case=True))
    assert terms_of({"disk": "Platte | Scheibe", "Debian": None, "IT": "EDV"}) == expected
    assert terms_of(["disk\tPlatte|Scheibe", "Debian", "IT\tEDV"]) == expected == terms_of(list(expected))
    assert identity_of(expected) == identity_of(expected[::-1]) != identity_of(expected[1:])


def test_terms_that_conflict_are_refused_and_equal_ones_are_one() -> None:
    assert len(terms_of(["disk\tPlatte", "Disk\tPlatte", "disk\tPlatte"])) == 2
    with pytest.raises(
        DataError, match=r"term 2: 'Disk' has the translation 'Scheibe', but 'Platte' at term 1.*Platte \| "
    ):
        terms_of(["disk\tPlatte", "Disk\tScheibe"])
    with pytest.raises(DataError, match="term 1 has no source"):
        terms_of({" ": "x"})
    with pytest.raises(DataError, match=r"term 1 is 5.*None to keep it"):
        terms_of([5])  # type: ignore[list-item]


@settings(max_examples=150)
@given(st.text(max_size=40), st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=4))
def test_what_is_found_is_there_in_order_and_whole(text: str, sources: list[str]) -> None:
    text = AS_IT_IS.tidy(text)
    terms = [Term(source) for source in sources]
    end = 0
    for one in TermFinder(terms, AS_IT_IS).find(text):
        assert end <= one.start < one.end <= len(text)
        assert text[one.start : one.end].casefold() in {AS_IT_IS.tidy(source).casefold() for source in sources}
        assert begins_word(text[one.start - 1 : one.start], text[one.start])
        assert ends_word(text[one.end - 1], text[one.end : one.end + 1])
        end = one.end


@settings(max_examples=100)
@given(st.text("abß İ한은中.", max_size=12), st.text("abß한中", min_size=1, max_size=3))
def test_a_term_is_found_wherever_a_plain_search_finds_it(text: str, source: str) -> None:
    places = [
        place
        for place in range(len(text))
        if text.startswith(source, place)
        and begins_word(text[place - 1 : place] if place else "", text[place])
        and ends_word(source[-1], text[place + len(source) : place + len(source) + 1])
    ]
    starts = [one.start for one in TermFinder([Term(source, exact_case=True)], AS_IT_IS).find(text)]
    first = [place for number, place in enumerate(places) if not any(p < place < p + len(source) for p in starts)]
    assert starts == first
