"""Files of terms, as users have them."""

import gzip
from pathlib import Path

import pytest

from nmt_core.config import LanguagesConfig
from nmt_core.errors import DataError
from nmt_core.terms.glossary import Term
from nmt_core.terms.reading import read_terms

EN_DE = LanguagesConfig(source="en", target="de")
DISK, NAME = Term("disk", ("Platte",)), Term("Debian")


def read(tmp_path: Path, text: str, name: str = "terms.tsv", languages: LanguagesConfig = EN_DE) -> tuple[Term, ...]:
    (tmp_path / name).write_text(text)
    return read_terms(str(tmp_path / name), "", languages)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", "disk\tPlatte\nDebian\t\n"),
        ("a.tsv", "disk\tPlatte\r\nDebian\r\n\r\n"),
        ("a.tsv", "\ufeffsource\ttarget\ndisk\tPlatte\nDebian\n"),
        ("a.tsv", "de\ten\nPlatte\tdisk\n\tDebian\n"),
        ("a.tsv", "id\ten-US\tde-DE\n1\tdisk\tPlatte\n2\tDebian\t\n"),
        ("a.txt", "Term\tTranslation\tnote\ndisk\tPlatte\tx\nDebian\n"),
        ("a.csv", "disk,Platte\nDebian,\n"),
        ("a.csv", 'English;German\n"disk";"Platte"\nDebian;\n'),
        ("a.csv", 'source,target\n"disk","Platte"\n"Debian",\n'),
    ],
)
def test_columns_are_found_by_name_or_by_place(tmp_path: Path, name: str, text: str) -> None:
    assert read(tmp_path, text, name) == (DISK, NAME)


def test_optional_columns_and_several_forms(tmp_path: Path) -> None:
    text = "source\ttarget\tcase\tforms\ndisk | disc\tPlatte | Scheibe\texact\tinflected\n"
    text += "it\tEDV\tyes\t\nIT\tes\tany\tas_given\n"
    targets = ("Platte", "Scheibe")
    assert read(tmp_path, text) == (
        Term("disk", targets, exact_case=True, inflected=True),
        Term("disc", targets, exact_case=True, inflected=True),
        Term("it", ("EDV",), exact_case=True),
        Term("IT", ("es",)),
    )
    terms = read_terms(str(tmp_path / "terms.tsv"), "", EN_DE, inflected=True)
    assert [term.inflected for term in terms] == [True, True, True, False]


def test_a_list_of_terms_to_keep(tmp_path: Path) -> None:
    (tmp_path / "keep.txt").write_text('Debian\n"C" and\n\nGNU\tnot translated\n')
    kept = (NAME, Term('"C" and'), Term("GNU", exact_case=True))
    assert read_terms("", str(tmp_path / "keep.txt"), EN_DE) == kept
    (tmp_path / "terms.csv").write_text("disk,Platte\n")
    both = read_terms(str(tmp_path / "terms.csv"), str(tmp_path / "keep.txt"), EN_DE)
    assert both == (DISK, *kept)
    assert read_terms("", "", EN_DE) == ()


def test_packed_and_in_utf_16(tmp_path: Path) -> None:
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(b"disk\tPlatte\n"))
    assert read_terms(str(tmp_path / "a.tsv.gz"), "", EN_DE) == (DISK,)
    (tmp_path / "a.csv").write_bytes("source;target\ndisk;Platte\n".encode("utf-16"))
    assert read_terms(str(tmp_path / "a.csv"), "", EN_DE) == (DISK,)


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("", ["terms.tsv", "has no terms", "give a source and its translation"]),
        ("source\ttarget\n", ["terms.tsv", "has no terms"]),
        (
            "disk\tPlatte\nx\ty\nDisk\tScheibe\n",
            ["line 3", "'Disk'", "'Scheibe'", "'Platte'", "line 1", "Platte | Scheibe"],
        ),
        ("disk\tPlatte\nDisk\n", ["line 2", "no translation", "line 1"]),
        ("x\ty\n\tPlatte\n", ["line 2", "no source", "remove the line"]),
        ("source\ttarget\tcase\na\tb\tmaybe\n", ["line 2", "case='maybe'", "exact or any"]),
        ("source\ttarget\tforms\na\tb\tall\n", ["line 2", "forms='all'", "inflected or as_given"]),
        ("en\tfr\ndisk\tdisque\n", ["line 1", "en, fr", "from en to de"]),
    ],
)
def test_a_wrong_file_is_answered_with_place_value_and_remedy(tmp_path: Path, text: str, facts: list[str]) -> None:
    with pytest.raises(DataError) as error:
        read(tmp_path, text)
    assert [fact for fact in facts if fact not in str(error.value)] == []


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.tsv: cannot be read \(No such file.*check the path of the glossary"):
        read_terms(str(tmp_path / "none.tsv"), "", EN_DE)
    (tmp_path / "bad.tsv").write_bytes(b"disk\tPlatte\nstra\xdfe\tx\n")
    with pytest.raises(DataError, match=r"bad\.tsv, line 2: is not UTF-8: save the file as UTF-8"):
        read_terms(str(tmp_path / "bad.tsv"), "", EN_DE)
