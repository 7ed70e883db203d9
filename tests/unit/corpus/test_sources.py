"""Facts that identify a download, and the content of its index."""

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from nmt_core.config import PipelineConfig
from nmt_core.corpus import index, sources
from nmt_core.corpus.fetching.lockfile import Lockfile
from nmt_core.errors import DataError
from nmt_core.store.artifacts import Artifact

TEXT = b"Ein Hund rennt.\n"
TEXT_SHA256 = hashlib.sha256(TEXT).hexdigest()
OTHER_SHA256 = hashlib.sha256(b"other").hexdigest()
ADDRESS = "https://host.invalid/train.tsv.gz"


def config_of(*train: Any, **corpus: Any) -> PipelineConfig:
    named = [{"name": f"news{number}", **files} for number, files in enumerate(train)]
    languages = {"source": "en", "target": "de"}
    return PipelineConfig.model_validate({"name": "t", "languages": languages, "corpus": {"train": named, **corpus}})


def identity_of(*train: Any, **corpus: Any) -> list[dict[str, Any]]:
    """The identity of the training corpora."""
    found: list[dict[str, Any]] = sources.identity(config_of(*train, **corpus))["train"]
    return found


@pytest.fixture
def local(tmp_path: Path) -> Path:
    path = tmp_path / "train.tsv"
    path.write_bytes(TEXT)
    return path


def test_the_same_content_has_the_same_identity_wherever_it_lies(local: Path, tmp_path: Path) -> None:
    by_path = identity_of({"address": str(local)})
    lock = tmp_path / "lock.json"
    Lockfile(str(lock)).record(ADDRESS, TEXT_SHA256, len(TEXT))

    assert by_path == [{"name": "news0", "both": [TEXT_SHA256]}]
    assert by_path == identity_of({"address": local.as_uri()})
    assert by_path == identity_of({"address": ADDRESS, "sha256": TEXT_SHA256})
    assert by_path == identity_of({"address": ADDRESS}, lock=str(lock))
    assert by_path == identity_of({"address": "gone/train.tsv"}, mirror=str(tmp_path))


def test_a_local_file_that_changes_is_another_text(local: Path) -> None:
    before = identity_of({"address": str(local)})
    local.write_bytes(b"Another text.\n")

    assert identity_of({"address": str(local)}) != before


def test_how_it_is_fetched_and_whose_it_is_does_not_count(local: Path, tmp_path: Path) -> None:
    files = {"source": str(local), "target": str(local)}
    plain = sources.identity(config_of(files))

    assert plain["train"] == [{"name": "news0", "source": [TEXT_SHA256], "target": [TEXT_SHA256]}]
    for options in (
        {"mirror": str(tmp_path)},
        {"offline": True},
        {"lock": str(tmp_path / "lock")},
        {"licence": "free"},
    ):
        assert sources.identity(config_of(files, **options)) == plain
    assert sources.identity(config_of(files | {"licence": "free", "citation": "Me"})) == plain


def test_what_decides_the_text_counts(local: Path) -> None:
    files = {"address": str(local)}
    plain = sources.identity(config_of(files))

    assert sources.identity(config_of(files, on_bad_corpus="skip")) != plain
    assert sources.identity(config_of(files | {"source_column": "2"})) != plain
    assert sources.identity(config_of(files | {"name": "web"})) != plain


def test_an_address_is_its_own_identity_until_it_has_been_fetched() -> None:
    assert identity_of({"address": ADDRESS}) == [{"name": "news0", "both": [ADDRESS]}]


def test_a_short_address_is_not_looked_up(tmp_path: Path) -> None:
    lock = Lockfile(str(tmp_path / "lock"))
    unknown = identity_of({"address": "hf:org/name@main"}, lock=str(tmp_path / "lock"))
    lock.record_files("hf:org/name@main en-de", [ADDRESS])
    lock.record(ADDRESS, TEXT_SHA256, 1)

    assert unknown == [{"name": "news0", "address": "hf:org/name@main en-de", "files": []}]
    assert identity_of({"address": "hf:org/name@main"}, lock=str(tmp_path / "lock")) == [
        unknown[0] | {"files": [TEXT_SHA256]}
    ]
    assert identity_of({"address": "opus:A/v1", "sha256": OTHER_SHA256})[0]["files"] == [OTHER_SHA256]


def test_a_folder_is_its_files_in_pairs(tmp_path: Path) -> None:
    for name in ("a.en", "a.de", "b.de", "b.en"):
        (tmp_path / name).write_text(name)

    (found,) = identity_of({"address": str(tmp_path)})

    assert found["source"] == [hashlib.sha256(name).hexdigest() for name in (b"a.en", b"b.en")]
    assert found["target"] == [hashlib.sha256(name).hexdigest() for name in (b"a.de", b"b.de")]


def test_the_toy_corpus_is_its_parameters() -> None:
    config = PipelineConfig.model_validate({"name": "test", "corpus": {"toy": {"pairs": 1000}}})

    assert sources.identity(config)["toy"]["pairs"] == 1000


@pytest.mark.parametrize("sha256", ["", TEXT_SHA256])
def test_a_local_file_that_does_not_exist_is_found_before_anything_runs(sha256: str) -> None:
    files = {"source": "gone/train.en", "target": ADDRESS, "source_sha256": sha256}

    with pytest.raises(
        DataError, match=r"corpus news0, source side: gone/train.en: no such file \(looked for /.*corpus.mirror=FOLDER"
    ):
        sources.identity(config_of(files))


@pytest.mark.parametrize("address", ["opsu:Tatoeba/v1", "*.gone"])
def test_a_wrong_address_is_found_before_anything_runs(address: str) -> None:
    with pytest.raises(DataError, match=r"^corpus news0: "):
        sources.identity(config_of({"address": address}))


def test_a_missing_training_file_is_no_error_where_it_may_be_skipped() -> None:
    skipping = {"on_bad_corpus": "skip"}

    assert identity_of({"address": "gone/train.tsv"}, **skipping) == [
        {"name": "news0", "missing": ["gone/train.tsv", "", ""]}
    ]
    with pytest.raises(DataError, match=r"corpus dev: gone.tsv: no such file"):
        sources.identity(config_of({"address": ADDRESS}, dev=[{"name": "dev", "address": "gone.tsv"}], **skipping))


def test_a_mirror_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"corpus.mirror=.*gone: no such folder"):
        identity_of({"address": "train.tsv"}, mirror=str(tmp_path / "gone"))


def stored(*addresses: str, **values: Any) -> index.StoredCorpus:
    files = [
        index.StoredFile(file=f"train/{n}.zip", sha256="", bytes=1, address=address, side="both")
        for n, address in enumerate(addresses)
    ]
    plain = {"role": "train", "name": "news0", "licence": "", "citation": "", "url": "", "files": tuple(files)}
    return index.StoredCorpus.model_validate(plain | values)


@pytest.mark.parametrize(
    ("now", "default", "known", "expected"),
    [
        ("CC0", "GPL", "MIT", "CC0"),
        ("", "GPL", "MIT", "MIT"),
        ("", "GPL", "", "GPL"),
        ("", "", "", ""),
        ("", "GPL", None, "old"),  # the index does not say where it has it from
        ("CC0", "GPL", None, "CC0"),
    ],
)
def test_the_licence_comes_from_the_recipe_as_it_is_now(
    now: str, default: str, known: str | None, expected: str
) -> None:
    config = config_of({"address": ADDRESS, "licence": now, "citation": now}, licence=default).corpus
    corpus = stored(licence="old", citation="old", known_licence=known, known_citation=known)

    assert corpus.as_of(config).licence == expected
    assert corpus.as_of(config).citation == (now or ("old" if known is None else known))
    assert corpus.model_copy(update={"name": "gone"}).as_of(config).licence == (
        default if known == "" else known or "old"
    )


def test_a_corpus_without_a_page_is_shown_by_the_addresses_of_its_files() -> None:
    assert stored(ADDRESS, ADDRESS).page == ADDRESS
    assert stored("s3://a/x.en", "s3://a/x.de").page == "s3://a/x.en, s3://a/x.de"
    assert stored(*"abcde").page == "a, b, c and 2 more"
    assert stored(ADDRESS, url="https://page.invalid").page == "https://page.invalid"
    assert stored("nmt_core.corpus.toy").page == ""


def test_licences_in_archives_are_found(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    with zipfile.ZipFile(tmp_path / "train" / "0.zip", "w") as archive:
        for name in ("LICENSE", "README", "docs/licence.txt", "unlicensed", "x.en"):
            archive.writestr(name, "")
    (tmp_path / "train" / "1.zip").write_bytes(b"none")
    download = Artifact("download", "0" * 32, tmp_path)

    assert index.licence_files(download, stored("a", "b", "c")) == ["LICENSE", "docs/licence.txt"]


def test_an_index_that_is_none_is_an_error(tmp_path: Path) -> None:
    download = Artifact("download", "0" * 32, tmp_path)

    with pytest.raises(DataError, match=r"corpora.json: not an index of corpora.*--force"):
        index.CorpusIndex.of(download)
    (tmp_path / index.INDEX).write_text(json.dumps({"corpora": [{"name": "old"}]}))
    with pytest.raises(DataError, match="not an index of corpora"):
        index.CorpusIndex.of(download)
