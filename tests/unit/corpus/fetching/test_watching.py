"""Watch addresses on a web server, in an object store and on this machine. Each change is reported once."""

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from nmt_core.config import PipelineConfig
from nmt_core.corpus.fetching.lockfile import Lockfile
from nmt_core.corpus.fetching.watching import changes, look, watched


class Text:
    """A text on a web server."""

    def __init__(self) -> None:
        self.content, self.headers = b"one\n", {"ETag": '"1"'}
        self.methods: list[str] = []


@pytest.fixture
def text() -> Text:
    return Text()


@pytest.fixture
def address(text: Text) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            text.methods.append(self.command)
            self.send_response(404 if "missing" in self.path else 200)
            for name, value in text.headers.items():
                self.send_header(name, value)
            self.end_headers()

        do_GET = do_HEAD

        def log_message(self, *arguments: Any) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def recipe(*corpora: Any, lock: str = "") -> PipelineConfig:
    return PipelineConfig.model_validate({"name": "x", "corpus": {"train": list(corpora), "lock": lock}})


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ({"ETag": '"1"'}, {"ETag": '"1"'}, False),
        ({"ETag": '"1"'}, {"ETag": 'W/"1"'}, False),
        ({"ETag": '"1"'}, {"ETag": '"2"'}, True),
        ({"Content-Length": "4"}, {"Content-Length": "5"}, True),
        ({"Content-Length": "4", "Last-Modified": "a"}, {"Content-Length": "4", "Last-Modified": "b"}, True),
        ({"Content-Length": "4", "Last-Modified": "a"}, {"Content-Length": "4", "Last-Modified": "a"}, False),
    ],
)
def test_a_web_address_is_known_by_its_headers(
    text: Text, address: str, before: dict[str, str], after: dict[str, str], changed: bool
) -> None:
    text.headers = before
    first = look([f"{address}/x"])
    text.headers = after
    second = look([f"{address}/x"])
    assert bool(changes(first.digests, second.digests)) == changed
    assert set(text.methods) == {"HEAD"}, "nothing is fetched"


def test_what_does_not_answer_is_no_change(text: Text, address: str) -> None:
    found = look([f"{address}/missing", f"{address}/x", "http://127.0.0.1:1/x"])
    assert list(found.digests) == [f"{address}/x"]
    assert "404" in found.unanswered[f"{address}/missing"]
    assert changes({f"{address}/missing": "etag:1"}, found.digests) == []
    text.headers = {}
    assert "pin the text by its sha256" in look([address]).unanswered[address]


def test_what_is_seen_for_the_first_time_has_not_changed() -> None:
    assert changes({}, {"a": "1"}) == []
    assert changes({"a": "1", "b": "1"}, {"a": "2", "b": "1", "c": "1"}) == ["a"]


def test_files_of_this_machine_are_known_by_their_content(tmp_path: Path) -> None:
    file = tmp_path / "x.tsv"
    file.write_text("a\tb\n")
    before = look([str(file)]).digests
    file.write_text("a\tc\n")
    assert changes(before, look([str(file)]).digests) == [str(file)]
    file.unlink()
    assert "No such file" in look([str(file)]).unanswered[str(file)]


def test_a_pattern_in_a_store_stands_for_what_fits(s3_folder: str) -> None:
    store = fsspec.filesystem("s3")
    store.pipe(f"{s3_folder}/1.tsv", b"a\tb\n")
    pattern = f"{s3_folder}/*.tsv"
    before = look([pattern, f"{s3_folder}/1.tsv"])
    assert not before.unanswered
    assert changes(before.digests, look([pattern, f"{s3_folder}/1.tsv"]).digests) == []
    store.pipe(f"{s3_folder}/2.tsv", b"c\td\n")
    assert changes(before.digests, look([pattern, f"{s3_folder}/1.tsv"]).digests) == [pattern]
    store.pipe(f"{s3_folder}/1.tsv", b"e\tf\n")
    assert len(changes(before.digests, look([pattern, f"{s3_folder}/1.tsv"]).digests)) == 2


def test_pinned_text_is_not_watched(tmp_path: Path) -> None:
    here = tmp_path / "here.tsv"
    here.write_text("a\tb\n")
    lock = Lockfile(str(tmp_path / "lock.json"))
    lock.record_files("opus:X/v1 en-ko", ["https://example.org/1.zip", "https://example.org/2.zip"])
    pinned = {"address": "https://example.org/pinned.tsv", "sha256": "0" * 64}
    corpora = ["https://example.org/a.tsv", pinned, str(here), "opus:X/v1", "s3://bucket/*.tsv"]
    assert watched(recipe(*corpora, lock=str(tmp_path / "lock.json"))) == [
        "https://example.org/a.tsv",
        str(here),
        "https://example.org/1.zip",
        "https://example.org/2.zip",
        "s3://bucket/*.tsv",
    ]


def test_text_of_many_pairs_is_watched_in_its_own_pair(tmp_path: Path) -> None:
    lock = Lockfile(str(tmp_path / "lock.json"))
    lock.record_files("opus:X/v1 fr-en", ["https://example.org/fr.zip"])
    lock.record_files("opus:N/v1 en-de", ["https://example.org/de.zip"])
    (tmp_path / "a.tsv").write_text("a\tb\n")
    held_out = {"address": str(tmp_path / "a.tsv"), "sha256": "0" * 64, "pairs": "en-de"}
    corpus = {
        "train": [held_out | {"name": "t"}, {"address": "opus:X/v1", "pairs": "fr-en"}],
        "dev": [held_out | {"name": "dev"}],
        "test": [held_out | {"name": "test"}],
        "monolingual": [{"name": "german", "language": "de", "address": "opus:N/v1"}],
        "lock": str(tmp_path / "lock.json"),
    }
    config = PipelineConfig.model_validate({"name": "x", "languages": {"pairs": ["en-de", "fr-en"]}, "corpus": corpus})
    assert watched(config) == ["https://example.org/fr.zip", "https://example.org/de.zip"]


def test_a_lock_file_forgets_what_has_changed_and_nothing_else(tmp_path: Path) -> None:
    lock = Lockfile(str(tmp_path / "lock.json"))
    for address in ("https://a", "https://b", "s3://bucket/1.tsv"):
        lock.record(address, "0" * 64, 1)
    lock.record_files("s3://bucket/*.tsv en-ko", ["s3://bucket/1.tsv"])
    lock.forget(["https://a", "s3://bucket/*.tsv"])
    again = Lockfile(str(tmp_path / "lock.json"))
    assert [bool(again.sha256(a)) for a in ("https://a", "https://b", "s3://bucket/1.tsv")] == [False, True, False]
    assert again.files_of("s3://bucket/*.tsv en-ko") == ()
    again.record("https://a", "1" * 64, 2)


def test_without_a_lock_file_there_is_nothing_to_forget() -> None:
    Lockfile("").forget(["https://a"])
