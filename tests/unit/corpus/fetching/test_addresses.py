"""Addresses in a recipe: their schemes, and files, folders and patterns of this machine."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt_core.config import LanguagesConfig, ParallelCorpus
from nmt_core.corpus.fetching import addresses
from nmt_core.corpus.fetching.addresses import RequestedFile
from nmt_core.errors import DataError

ENGLISH_GERMAN = LanguagesConfig(source="en", target="de")


def resolve(address: str, **more: str) -> list[tuple[str, str]]:
    """Return address and side of each file that an address stands for."""
    found = addresses.resolve_here(ParallelCorpus(name="news", address=address, **more), ENGLISH_GERMAN)
    assert found
    return [(file.address, file.side) for file in found.files]


def touch(folder: Path, *names: str) -> list[str]:
    for name in names:
        (folder / name).touch()
    return [str(folder / name) for name in names]


@pytest.mark.parametrize(
    ("address", "scheme"),
    [
        ("opus:Tatoeba/v1", "opus"),
        ("HTTPS://host.invalid/a", "https"),
        ("s3://bucket/a", "s3"),
        ("hf:org/name@main", "hf"),
        ("file:///a", ""),
        ("folder/a.en", ""),
        ("C:/a.en", ""),
    ],
)
def test_the_scheme_of_an_address(address: str, scheme: str) -> None:
    assert addresses.scheme_of(address) == scheme


@pytest.mark.parametrize(("address", "meant"), [("opsu:Tatoeba/v1", "opus:"), ("htps://host.invalid/a", "https:")])
def test_an_unknown_scheme_names_the_one_that_was_meant(address: str, meant: str) -> None:
    with pytest.raises(DataError, match=f"{address}: .* is not a known kind of address: did you mean {meant}"):
        addresses.scheme_of(address)


def test_an_unknown_scheme_like_no_other_lists_them() -> None:
    with pytest.raises(
        DataError, match="give a path, or one of opus, mtdata, sacrebleu, hf, https, http, s3, gs, file"
    ):
        addresses.scheme_of("zzzzzz:a")


def test_a_path_with_a_colon_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "news:2019.tsv")
    monkeypatch.chdir(tmp_path)

    assert addresses.scheme_of("news:2019.tsv") == ""


def test_two_addresses_are_two_sides() -> None:
    corpus = ParallelCorpus(name="news", source="a.en", target="https://host.invalid/a.de", target_sha256="1" * 64)

    found = addresses.resolve_here(corpus, ENGLISH_GERMAN)

    assert found
    assert found.files == (
        RequestedFile("a.en", "source"),
        RequestedFile("https://host.invalid/a.de", "target", sha256="1" * 64),
    )


@pytest.mark.parametrize("address", ["a.tsv", "https://host.invalid/*.tsv?a=[b]", "s3://bucket/a.tsv", "gone"])
def test_one_address_holds_both_sides(address: str) -> None:
    assert resolve(address) == [(address, "both")]


@pytest.mark.parametrize("address", ["opus:Tatoeba/v1", "mtdata:a-b-1-deu-eng", "hf:a/b", "s3://bucket/*.en"])
def test_what_must_be_looked_up_is_not_known_here(address: str) -> None:
    assert addresses.resolve_here(ParallelCorpus(name="news", address=address), ENGLISH_GERMAN) is None


def test_a_folder_holds_pairs_and_tables(tmp_path: Path) -> None:
    touch(tmp_path, "b.en", "b.de", "a.EN.gz", "a.de.zst", "c.tsv.xz", "d.tmx", "README", "notes.md", ".hidden.tsv")
    (tmp_path / "sub.tsv").mkdir()

    assert [(Path(name).name, side) for name, side in resolve(str(tmp_path))] == [
        ("a.EN.gz", "source"),
        ("a.de.zst", "target"),
        ("b.en", "source"),
        ("b.de", "target"),
        ("c.tsv.xz", "both"),
        ("d.tmx", "both"),
    ]


def test_languages_may_be_written_at_length(tmp_path: Path) -> None:
    touch(tmp_path, "a.eng", "a.de_AT")

    assert [side for _, side in resolve(tmp_path.as_uri())] == ["source", "target"]


def test_a_pattern_takes_all_that_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "x.2.part", "x.1.part", "x.en", "x.de", "y.tsv")
    monkeypatch.chdir(tmp_path)

    expected = [("x.en", "source"), ("x.de", "target"), ("x.1.part", "both"), ("x.2.part", "both")]
    assert resolve("x.*") == expected
    assert [(Path(name).name, side) for name, side in resolve(f"{tmp_path}/x.*")] == expected


def test_a_file_that_looks_like_a_pattern_is_a_file(tmp_path: Path) -> None:
    (path,) = touch(tmp_path, "a[1].tsv")

    assert resolve(path) == [(path, "both")]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a.en"], r"a.en has no partner that ends in .de"),
        (["a.de.gz", "b.en"], "has no partner"),
        (["a.en", "a.en.gz", "a.de"], "hold the same side"),
        ([], "holds no text: looked for files that end in .en and .de"),
        (["README"], "holds no text"),
    ],
)
def test_a_folder_that_does_not_fit_is_refused(tmp_path: Path, names: list[str], message: str) -> None:
    touch(tmp_path, *names)

    with pytest.raises(DataError, match=message):
        resolve(str(tmp_path))


def test_a_pattern_without_a_match_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"\*.en: holds no text"):
        resolve(f"{tmp_path}/*.en")


def test_one_hash_cannot_describe_a_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="means several files, which one sha256 cannot describe"):
        resolve(str(tmp_path), sha256="1" * 64)


@pytest.mark.parametrize("address", ["opus:Tatoeba/v1", "folder/*.en"])
def test_what_holds_both_sides_is_no_side(address: str) -> None:
    corpus = ParallelCorpus(name="news", source=address, target="a.de")

    with pytest.raises(DataError, match="holds both sides: give it as `address`"):
        addresses.resolve_here(corpus, ENGLISH_GERMAN)


@pytest.mark.parametrize(
    ("address", "name"),
    [("https://host.invalid/x/a%20b.gz?key=1#top", "a b.gz"), ("x/a?b.gz", "a?b.gz"), ("file:///x/a%20b", "a b")],
)
def test_the_name_in_an_address(address: str, name: str) -> None:
    assert addresses.name_in(address) == name


@given(st.sets(st.text(alphabet="ab.", min_size=1, max_size=4), min_size=1, max_size=6))
def test_every_pair_is_found_once_and_in_step(stems: set[str]) -> None:
    names = sorted(f"{stem}.{language}" for stem in stems for language in ("en", "de"))

    wanted = addresses.in_pairs(names, ENGLISH_GERMAN, "folder", only_data=True)

    assert sorted(file.address for file in wanted) == names
    for source, target in zip(wanted[::2], wanted[1::2], strict=True):
        assert (source.side, target.side) == ("source", "target")
        assert source.address.removesuffix(".en") == target.address.removesuffix(".de")
