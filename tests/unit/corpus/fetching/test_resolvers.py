"""Short addresses: the address that each leads to, and the whole way from address to file."""

import hashlib
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from sacrebleu.dataset import DATASETS
from sacrebleu.dataset.fake_sgml import FakeSGMLDataset

from nmt_core.config import LanguagesConfig, PipelineConfig
from nmt_core.corpus import reading
from nmt_core.corpus.fetching.addresses import Resolution
from nmt_core.corpus.fetching.resolvers import RESOLVERS, Question, mtdata_index, opus
from nmt_core.corpus.index import CorpusIndex, StoredCorpus
from nmt_core.errors import DataError
from nmt_core.stages.stage import Job, Resources, SilentReporter, run_stage
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import Artifact, Store

Answers = Callable[..., Any]
ENGLISH_GERMAN, GERMAN_ENGLISH = LanguagesConfig(source="en", target="de"), LanguagesConfig(source="de", target="en")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def question(address: str, languages: LanguagesConfig = ENGLISH_GERMAN, **more: Any) -> Question:
    return Question(address, languages, **more)


def resolve(address: str, languages: LanguagesConfig = ENGLISH_GERMAN, **more: Any) -> Resolution:
    return RESOLVERS[address.partition(":")[0]](question(address, languages, **more))


@pytest.fixture
def download(tmp_path: Path) -> Callable[..., tuple[StoredCorpus, Artifact]]:
    """Run the stage on one corpus."""

    def run(address: str, languages: LanguagesConfig = ENGLISH_GERMAN, **corpus: Any) -> tuple[StoredCorpus, Artifact]:
        rules = {"train": [{"name": "news", "address": address}], "lock": str(tmp_path / "lock.json")} | corpus
        config = PipelineConfig.model_validate({"name": "t", "languages": languages.model_dump(), "corpus": rules})
        job = Job(SilentReporter(), Resources())
        made = run_stage(STAGES["download"], config, Store(tmp_path / "store"), {}, job, force=True).artifact
        return CorpusIndex.of(made).corpora[0], made

    return run


def text_of(corpus: StoredCorpus, made: Artifact, languages: LanguagesConfig = ENGLISH_GERMAN) -> list[tuple[str, str]]:
    """The pairs that a later stage reads."""
    frames = reading.rows(made, corpus, languages, 1_000)
    return [row[:2] for frame in frames for row in frame.select("source", "target").rows()]


def zip_of(**members: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in members.items():
            archive.writestr(name.replace("__", "."), text)
    return file.getvalue()


def tgz_of(members: dict[str, str]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, text in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return file.getvalue()


def parquet_of(rows: int) -> bytes:
    file = io.BytesIO()
    pl.DataFrame({"en": ["Dog."] * rows, "de": ["Hund."] * rows}).write_parquet(file)
    return file.getvalue()


# OPUS


@pytest.mark.parametrize(
    ("languages", "members"), [(ENGLISH_GERMAN, ["*.en", "*.de"]), (GERMAN_ENGLISH, ["*.de", "*.en"])]
)
def test_opus_is_one_zip_for_both_directions(languages: LanguagesConfig, members: list[str]) -> None:
    found = resolve("opus:Tatoeba/v2023-04-12", languages)

    assert {file.address for file in found.files} == {
        "https://object.pouta.csc.fi/OPUS-Tatoeba/v2023-04-12/moses/de-en.txt.zip"
    }
    assert [file.side for file in found.files] == ["source", "target"]
    assert [file.member for file in found.files] == members
    assert found.url.startswith("https://opus.nlpl.eu/Tatoeba")
    assert "Tiedemann" in found.citation
    assert found.licence == ""  # each has its own, and only its page says which


@pytest.mark.parametrize("address", ["opus:Tatoeba", "opus:", "opus:a/b/c", "opus:../b", "opus:a/b/en-de/x"])
def test_opus_needs_a_version(address: str) -> None:
    with pytest.raises(DataError, match="must read opus:CORPUS/VERSION"):
        resolve(address)


def test_opus_is_fetched_once_and_the_other_order_is_tried(
    web: Any, good: Answers, download: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opus, "_STORE", web.root)
    path = "OPUS-Trial/v1/moses/en-de.txt.zip"
    address = web.serve(path, good(zip_of(Trial__en="Dog.\n", Trial__de="Hund.\n", README="")))

    corpus, made = download("opus:Trial/v1")

    assert [(file.file, file.side, file.member) for file in corpus.files] == [
        ("train/news.zip", "source", "*.en"),
        ("train/news.zip", "target", "*.de"),
    ]
    assert {file.address for file in corpus.files} == {address}
    assert text_of(corpus, made) == [("Dog.", "Hund.")]
    assert made.report()["items_out"] == 1
    assert [request.path for request in web.requests] == ["/OPUS-Trial/v1/moses/de-en.txt.zip", f"/{path}"]
    download("opus:Trial/v1")
    assert len(web.requests) == 2


ENGLISH_PORTUGUESE, PORTUGUESE_ENGLISH = (
    LanguagesConfig(source="en", target="pt"),
    LanguagesConfig(source="pt", target="en"),
)


@pytest.mark.parametrize("pair", ["en-pt_BR", "pt_BR-en"])
@pytest.mark.parametrize("languages", [ENGLISH_PORTUGUESE, PORTUGUESE_ENGLISH])
def test_the_languages_of_opus_may_be_named_as_it_names_them(
    web: Any, good: Answers, download: Any, monkeypatch: pytest.MonkeyPatch, languages: LanguagesConfig, pair: str
) -> None:
    monkeypatch.setattr(opus, "_STORE", web.root)
    web.serve("OPUS-Trial/v1/moses/en-pt_BR.txt.zip", good(zip_of(Trial__en="Dog.\n", Trial__pt_BR="Cachorro.\n")))

    corpus, made = download(f"opus:Trial/v1/{pair}", languages)

    forward = [("Dog.", "Cachorro.")]
    expected = forward if languages == ENGLISH_PORTUGUESE else [(target, source) for source, target in forward]
    assert text_of(corpus, made, languages) == expected


def test_opus_in_other_languages_than_the_recipe() -> None:
    with pytest.raises(DataError, match="is in en and pt_BR, but the recipe is from en to de: name the languages"):
        resolve("opus:Trial/v1/en-pt_BR")


def test_opus_in_a_mirror_goes_by_its_whole_address(download: Any, tmp_path: Path) -> None:
    path = tmp_path / "mirror" / "object.pouta.csc.fi" / "OPUS-Trial" / "v1" / "moses" / "de-en.txt.zip"
    path.parent.mkdir(parents=True)
    path.write_bytes(zip_of(Trial__en="Dog.\n", Trial__de="Hund.\n"))
    (tmp_path / "mirror" / "de-en.txt.zip").write_bytes(b"of another corpus")

    corpus, _ = download("opus:Trial/v1", mirror=str(tmp_path / "mirror"), offline=True)

    assert corpus.files[0].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


# sacreBLEU


def test_a_test_set_of_sacrebleu() -> None:
    found = resolve("sacrebleu:wmt14/en-de")

    assert {file.address for file in found.files} == set(DATASETS["wmt14"].data)
    assert [(file.side, file.member) for file in found.files] == [
        ("source", "test/newstest2014-deen-src.en.sgm"),
        ("target", "test/newstest2014-deen-ref.de.sgm"),
    ]
    assert {file.md5 for file in found.files} == set(DATASETS["wmt14"].md5)
    assert "bojar" in found.citation


def test_each_direction_has_its_own_set_where_there_is_one() -> None:
    assert [file.member for file in resolve("sacrebleu:wmt19", GERMAN_ENGLISH).files] == [
        "sgm/newstest2019-deen-src.de.sgm",
        "sgm/newstest2019-deen-ref.en.sgm",
    ]
    assert resolve("sacrebleu:wmt19/de-en", GERMAN_ENGLISH) == resolve("sacrebleu:wmt19", GERMAN_ENGLISH)


def test_a_set_is_read_backwards_where_there_is_none_or_it_is_asked_for() -> None:
    assert [(file.side, file.member) for file in resolve("sacrebleu:wmt19/en-de", GERMAN_ENGLISH).files] == [
        ("source", "sgm/newstest2019-ende-ref.de.sgm"),
        ("target", "sgm/newstest2019-ende-src.en.sgm"),
    ]
    korean = LanguagesConfig(source="de", target="fr")
    assert [file.side for file in resolve("sacrebleu:wmt19", korean).files] == ["source", "target"]


@pytest.mark.parametrize("name", sorted(DATASETS))
def test_every_set_of_sacrebleu_leads_to_files_or_says_why_not(name: str) -> None:
    for pair in DATASETS[name].langpairs:
        source, target = pair.split("-")
        languages = LanguagesConfig(source=source, target=target)
        if name == "wmt17/ms":
            with pytest.raises(DataError, match="unknown which of them holds"):
                resolve(f"sacrebleu:{name}/{pair}", languages)
            continue
        found = resolve(f"sacrebleu:{name}/{pair}", languages)
        assert [file.side for file in found.files] in (["source", "target"], ["both"])
        assert all(file.address in DATASETS[name].data for file in found.files)


def test_a_table_of_sacrebleu_has_its_columns() -> None:
    found = resolve("sacrebleu:mtnt2019/en-fr", LanguagesConfig(source="en", target="fr"))

    assert (found.source_column, found.target_column) == ("3", "4")
    assert [file.member for file in found.files] == ["MTNT2019/en-fr.final.tsv"]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("sacrebleu:wmt14x/en-de", "no such test set: did you mean wmt14"),
        ("sacrebleu:wmt14/en-fr", "the recipe is from en to de"),
        ("sacrebleu:wmt15", "wmt15 is not in en and de, but in en-fr"),
    ],
)
def test_a_test_set_that_sacrebleu_does_not_know(address: str, message: str) -> None:
    languages = LanguagesConfig(source="en", target="de")
    if "wmt15" in address:
        languages = LanguagesConfig(source="en", target="ko")
        message = message.replace("de,", "ko,")
    with pytest.raises(DataError, match=message):
        resolve(address, languages)


@pytest.mark.parametrize("is_right", [True, False])
def test_the_published_md5_is_checked(
    web: Any, good: Answers, download: Any, monkeypatch: pytest.MonkeyPatch, is_right: bool
) -> None:
    archive = tgz_of(
        {
            f"test/t-{kind}.{language}.sgm": f'<srcset><doc docid="1"><seg id="1">{text}</seg></doc></srcset>\n'
            for kind, language, text in [("src", "en", "Dog."), ("ref", "de", "Hund.")]
        }
    )
    md5 = hashlib.md5(archive).hexdigest() if is_right else "0" * 32
    entry = FakeSGMLDataset(
        "trial",
        data=[web.serve("trial.tgz", good(archive))],
        md5=[md5],
        langpairs={"en-de": ["test/t-src.en.sgm", "test/t-ref.de.sgm"]},
    )
    monkeypatch.setitem(DATASETS, "trial", entry)

    if is_right:
        corpus, made = download("sacrebleu:trial", GERMAN_ENGLISH)
        assert text_of(corpus, made, GERMAN_ENGLISH) == [("Hund.", "Dog.")]
        assert [file.file for file in corpus.files] == ["train/news.tar.gz"] * 2
    else:
        with pytest.raises(
            DataError, match=r"corpus news, source side: .*trial.tgz has md5 .*, but 0{32} is published"
        ):
            download("sacrebleu:trial/en-de")


# Hugging Face


@pytest.fixture
def hub(web: Any, good: Answers, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Hub with one dataset, whose list of files has two pages."""
    monkeypatch.setenv("HF_ENDPOINT", f"{web.root}/")
    files = {
        "de-en/train-00000.parquet": parquet_of(3),
        "de-en/train-00001.parquet": parquet_of(2),
        "de-en/test-00000.parquet": parquet_of(1),
        "fr-en/train-00000.parquet": parquet_of(4),
        "README.md": b"",
    }
    listed = [
        {"type": "file", "path": path, "lfs": {"oid": hashlib.sha256(content).hexdigest()}}
        for path, content in files.items()
    ]
    info = {"sha": COMMIT, "cardData": {"license": ["cc-by-4.0", "mit"]}, "citation": "Them 2020"}
    for revision in ("main", "refs%2Fconvert%2Fparquet", COMMIT):
        web.serve_json(f"api/datasets/org/name/revision/{revision}", info)
    tree = f"api/datasets/org/name/tree/{COMMIT}?recursive=true"
    more = web.serve_json(f"{tree}&page=2", listed[2:])
    web.serve_json(tree, listed[:2], Link=f'<{more}>; rel="next"')
    for path, content in files.items():
        web.serve(f"datasets/org/name/resolve/{COMMIT}/{path}", good(content))
    return web


def test_parquet_files_of_a_dataset_are_fetched_and_remembered_by_commit(
    hub: Any, download: Any, tmp_path: Path
) -> None:
    corpus, made = download("hf:org/name@main/de-en/train-*.parquet")

    assert [file.file for file in corpus.files] == ["train/news.00000.parquet", "train/news.00001.parquet"]
    assert text_of(corpus, made) == [("Dog.", "Hund.")] * 5
    assert (corpus.licence, corpus.citation) == ("cc-by-4.0, mit", "Them 2020")
    assert corpus.url == f"{hub.root}/datasets/org/name"
    lock = json.loads((tmp_path / "lock.json").read_text())
    assert lock["addresses"] == {
        "hf:org/name@main/de-en/train-*.parquet en-de": [
            f"{hub.root}/datasets/org/name/resolve/{COMMIT}/de-en/train-{number:05d}.parquet" for number in (0, 1)
        ]
    }
    hub.serve_json("api/datasets/org/name/revision/main", {"sha": "f" * 40})
    assert download("hf:org/name@main/de-en/train-*.parquet")[0] == corpus  # the branch moved, the lock file did not


def test_what_is_locked_needs_no_network(hub: Any, download: Any) -> None:
    first, _ = download("hf:org/name@main/fr-en")
    asked = len(hub.requests)

    again, _ = download("hf:org/name@main/fr-en", offline=True)

    assert again.files == first.files
    assert len(hub.requests) == asked


def test_a_revision_may_be_one_of_the_hubs_own(hub: Any, download: Any) -> None:
    assert len(download("hf:org/name@refs/convert/parquet/fr-en")[0].files) == 1


def test_training_and_test_text_are_not_mixed(hub: Any, download: Any) -> None:
    with pytest.raises(DataError, match=r"corpus news: hf:org/name@main/de-en: holds test and train text together"):
        download("hf:org/name@main/de-en")


def test_a_file_that_is_not_what_the_hub_lists_is_refused(hub: Any, good: Answers, download: Any) -> None:
    hub.serve(f"datasets/org/name/resolve/{COMMIT}/fr-en/train-00000.parquet", good(parquet_of(5)))

    with pytest.raises(DataError, match="is expected"):
        download("hf:org/name@main/fr-en")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("hf:org", "must read hf:ORG/NAME@REVISION"),
        ("hf:org/name@main/ko-en", "no Parquet file that fits ko-en.*refs/convert/parquet"),
        ("hf:org/gone@main", "cannot fetch .*api/datasets/org/gone/revision/main: the server answered 404"),
    ],
)
def test_a_dataset_that_is_not_there(hub: Any, download: Any, address: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        download(address)


@pytest.mark.parametrize(
    ("about", "tree"),
    [
        ([], []),
        ({"error": "no such dataset " + "x" * 500}, []),
        ({"sha": None}, []),
        ({"sha": COMMIT}, {"error": "moved"}),
        ({"sha": COMMIT}, [{"type": "file"}]),
        ({"sha": COMMIT}, [{"path": "a.parquet", "lfs": "abc"}]),
    ],
)
def test_what_no_hub_answers(
    web: Any, download: Any, monkeypatch: pytest.MonkeyPatch, about: object, tree: object
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", web.root)
    web.serve_json("api/datasets/org/name/revision/main", about)
    web.serve_json(f"api/datasets/org/name/tree/{COMMIT}?recursive=true", tree)

    with pytest.raises(
        DataError, match=r"corpus news: hf:org/name@main: http.* answered .*: check HF_ENDPOINT"
    ) as caught:
        download("hf:org/name@main")
    assert len(str(caught.value)) < 500


def test_a_card_that_is_none_is_no_error(hub: Any, download: Any) -> None:
    hub.serve_json("api/datasets/org/name/revision/main", {"sha": COMMIT, "cardData": "none"})

    assert download("hf:org/name@main/fr-en")[0].licence == ""


# mtdata


def entry(**values: Any) -> dict[str, Any]:
    url = "https://host.invalid/a.zip"
    plain = {"url": url, "ext": "zip", "in_ext": "txt", "in_paths": ["*.de", "*.en"], "cols": None, "citations": []}
    return {"languages": ["deu", "eng"]} | plain | values


def of_entry(direction: LanguagesConfig = ENGLISH_GERMAN, **values: Any) -> Resolution:
    return mtdata_index.resolution_of(entry(**values), question("mtdata:A-b-1-deu-eng", direction))


def sides(found: Resolution) -> list[tuple[str, str]]:
    return [(file.side, file.member) for file in found.files]


def test_an_archive_of_mtdata_is_read_by_languages() -> None:
    assert sides(of_entry()) == [("source", "*.en"), ("target", "*.de")]
    assert sides(of_entry(GERMAN_ENGLISH)) == [("source", "*.de"), ("target", "*.en")]
    assert of_entry(citations=["A", "B"]).citation == "A\n\nB"
    assert of_entry().url == "https://host.invalid/a.zip"


def test_other_forms_of_mtdata() -> None:
    assert sides(of_entry(in_ext="tmx", in_paths=["a.tmx", "b.tmx"])) == [("both", "a.tmx"), ("both", "b.tmx")]
    table = of_entry(url="https://host.invalid/a.tsv.gz", ext="tsv.gz", in_ext=None, in_paths=None)
    assert (sides(table), table.source_column, table.target_column) == ([("both", "")], "2", "1")
    table = of_entry(GERMAN_ENGLISH, ext="tsv.gz", in_ext="tsv", in_paths=None, cols=[3, 5])
    assert (table.source_column, table.target_column) == ("4", "6")
    two = of_entry(
        url=["https://host.invalid/a.de", "https://host.invalid/a.en"], ext="txt", in_ext=None, in_paths=None
    )
    assert [(file.side, file.address[-2:]) for file in two.files] == [("source", "en"), ("target", "de")]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"languages": ["deu", "fra"]}, "is in deu and fra, but the recipe is from en to de"),
        ({"languages": ["deu"]}, "is in deu, but"),
        ({"in_ext": "hfds"}, "is in the format 'hfds', which is not supported"),
    ],
)
def test_an_entry_of_mtdata_that_does_not_fit(values: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        of_entry(**values)


def test_without_the_package_its_name_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mtdata.py").write_text("raise ImportError")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(DataError, match=r"mtdata:a-b-1-deu-eng: needs the package mtdata: pip install"):
        resolve("mtdata:a-b-1-deu-eng")


INDEX_OF_MTDATA = """
import json, pickle, sys, types
from mtdata import cached_index_file
from mtdata.entry import Entry

class Index: ...
class ReferenceDb: ...

module = sys.modules["mtdata.index"] = types.ModuleType("mtdata.index")  # the real one makes its index when imported
for stand_in in (Index, ReferenceDb):
    stand_in.__module__ = "mtdata.index"
    setattr(module, stand_in.__name__, stand_in)
index = Index()
entries = [Entry(cite=("tiedemann2012parallel",), **values) for values in json.loads(sys.argv[1])]
index.entries, index.ref_db = {entry.did: entry for entry in entries}, ReferenceDb()
cached_index_file.write_bytes(pickle.dumps(index))
"""


@pytest.fixture
def index_of_mtdata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make a small index where the real package, which the lookup then runs, expects its own of 291,000 entries."""
    monkeypatch.setenv("MTDATA", str(tmp_path))

    def make(**urls: str) -> None:
        entries = [
            {"did": f"{group}-news-1-deu-eng", "url": url, "in_paths": ["a/*.de", "a/*.en"], "in_ext": "txt"}
            for group, url in urls.items()
        ]
        subprocess.run([sys.executable, "-c", INDEX_OF_MTDATA, json.dumps(entries)], check=True, capture_output=True)

    return make


def test_an_id_of_mtdata_leads_to_text(
    web: Any, good: Answers, download: Any, index_of_mtdata: Callable[..., None]
) -> None:
    address = web.serve("news.tgz", good(tgz_of({"a/n.de": "Hund.\n", "a/n.en": "Dog.\n", "b/n.en": "No.\n"})))
    index_of_mtdata(Trial=address, Other="https://host.invalid/other.tgz")

    corpus, made = download("mtdata:Trial-news-1-deu-eng")

    assert text_of(corpus, made) == [("Dog.", "Hund.")]
    assert corpus.url == address
    assert "Tiedemann" in corpus.citation


def test_an_id_that_mtdata_does_not_have_is_answered_with_like_ones(index_of_mtdata: Callable[..., None]) -> None:
    index_of_mtdata(
        Trial="https://host.invalid/a.tgz", Other="https://host.invalid/b.tgz", Third="https://h.invalid/c.tgz"
    )

    with pytest.raises(DataError, match="no such id: did you mean Other-news-1-deu-eng, Trial-"):
        resolve("mtdata:other-news-2-deu-eng")
    with pytest.raises(DataError, match="no such id: `mtdata list` lists them all"):
        resolve("mtdata:nothing")


@pytest.mark.slow
@pytest.mark.cpu(40)
def test_the_index_of_mtdata_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package makes the index from its own files, without a network, in half a minute."""
    monkeypatch.setenv("MTDATA", str(tmp_path))
    both = ("mtdata:Statmt-europarl-9-deu-eng", "mtdata:Statmt-europarl-8-deu-eng")

    found = resolve(both[0], others=both)

    assert [file.address for file in found.files] == [
        "http://www.statmt.org/europarl/v9/training/europarl-v9.de-en.tsv.gz"
    ]
    assert "Koehn" in found.citation
    with pytest.raises(DataError, match="no such id: did you mean Statmt-europarl-"):
        resolve(both[1], others=both)
