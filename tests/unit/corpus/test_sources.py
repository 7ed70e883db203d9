import gzip
import hashlib
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from nmt_core.config import ParallelFiles, PipelineConfig
from nmt_core.corpus import sources
from nmt_core.corpus.sources import Resolver, WantedFile
from nmt_core.errors import DataError

TEXT = gzip.compress(b"Ein Hund rennt.\n" * 1000)
TEXT_SHA256 = hashlib.sha256(TEXT).hexdigest()
OTHER_SHA256 = hashlib.sha256(b"other").hexdigest()
Answer = Callable[[BaseHTTPRequestHandler], None]


def answer(status: int, body: bytes, *, content_type: str = "application/gzip", length: int | None = None) -> Answer:
    """An answer of the test server; `length` overrides what it says about the length of the body."""

    def send(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("Content-Type", content_type)
        request.send_header("Content-Length", str(len(body) if length is None else length))
        request.end_headers()
        request.wfile.write(body)

    return send


WHOLE = answer(200, TEXT)


class TestServer:
    """Serves `/<name>` with the next of its answers; the last one is repeated."""

    __test__ = False

    def __init__(self) -> None:
        self.answers: dict[str, list[Answer]] = {}
        self.requests: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests.append(self.path)
                answers = server.answers[self.path]
                (answers.pop(0) if len(answers) > 1 else answers[0])(self)

            def log_message(self, *_: object) -> None: ...

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def wanted(self, *answers: Answer, sha256: str = "", name: str = "train.de.gz") -> WantedFile:
        self.answers[f"/{name}"] = list(answers)
        address = f"http://127.0.0.1:{self.http.server_port}/{name}"
        return WantedFile("corpus news, target side", address, sha256)


@pytest.fixture
def server() -> Iterator[TestServer]:
    started = TestServer()
    yield started
    started.http.shutdown()
    started.http.server_close()


@pytest.fixture
def resolver() -> Resolver:
    return Resolver(attempts=3, pause=0.01, timeout=2)


def ignore(done: int, total: int) -> None: ...


def config_of(source: str, *, mirror: Path | str = "", sha256: str = "", licence: str = "") -> PipelineConfig:
    files = {"name": "news", "source": source, "target": source, "source_sha256": sha256, "target_sha256": sha256}
    corpus = {"train": [files], "mirror": str(mirror), "licence": licence}
    return PipelineConfig.model_validate({"name": "test", "corpus": corpus})


def test_a_download_arrives_unchanged_with_progress(server: TestServer, resolver: Resolver, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []

    sha256 = resolver.fetch(
        server.wanted(WHOLE, sha256=TEXT_SHA256), tmp_path / "file", lambda done, total: told.append((done, total))
    )

    assert (tmp_path / "file").read_bytes() == TEXT
    assert sha256 == TEXT_SHA256
    assert told[-1] == (len(TEXT), len(TEXT))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_passing_fault_is_tried_again(server: TestServer, resolver: Resolver, tmp_path: Path) -> None:
    cut_off = answer(200, TEXT[:10], length=len(TEXT))

    resolver.fetch(server.wanted(answer(500, b"oops"), cut_off, WHOLE), tmp_path / "file", ignore)

    assert (tmp_path / "file").read_bytes() == TEXT
    assert len(server.requests) == 3


def test_a_redirect_is_followed(server: TestServer, resolver: Resolver, tmp_path: Path) -> None:
    def redirect(request: BaseHTTPRequestHandler) -> None:
        request.send_response(302)
        request.send_header("Location", "/moved.gz")
        request.end_headers()

    server.wanted(WHOLE, name="moved.gz")
    resolver.fetch(server.wanted(redirect), tmp_path / "file", ignore)

    assert (tmp_path / "file").read_bytes() == TEXT


def test_a_lasting_fault_names_the_address_and_the_mirror(
    server: TestServer, resolver: Resolver, tmp_path: Path
) -> None:
    wanted = server.wanted(answer(503, b"busy"))

    with pytest.raises(
        DataError, match=rf"news, target side: cannot fetch {wanted.address}.*503.*corpus.mirror=FOLDER"
    ):
        resolver.fetch(wanted, tmp_path / "file", ignore)
    assert len(server.requests) == 3
    assert not (tmp_path / "file").exists()


def test_a_missing_page_is_not_tried_again(server: TestServer, resolver: Resolver, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the server answered 404 Not Found"):
        resolver.fetch(server.wanted(answer(404, b"no")), tmp_path / "file", ignore)
    assert len(server.requests) == 1


def test_a_file_that_is_always_cut_off_is_refused(server: TestServer, resolver: Resolver, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot fetch"):
        resolver.fetch(server.wanted(answer(200, TEXT[:10], length=len(TEXT))), tmp_path / "file", ignore)
    assert not (tmp_path / "file").exists()


def test_a_server_that_falls_silent_is_left(server: TestServer, tmp_path: Path) -> None:
    silence = threading.Event()

    def say_nothing(_: BaseHTTPRequestHandler) -> None:
        silence.wait(5)

    wanted = server.wanted(say_nothing)

    with pytest.raises(DataError, match="cannot fetch"):
        Resolver(attempts=2, pause=0.01, timeout=0.1).fetch(wanted, tmp_path / "file", ignore)
    silence.set()


def test_no_network_is_one_clear_error(resolver: Resolver, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed_soon:
        port = closed_soon.getsockname()[1]
    wanted = WantedFile("corpus news, source side", f"http://127.0.0.1:{port}/train.en", "")

    with pytest.raises(DataError, match=rf"http://127.0.0.1:{port}/train.en.*--set corpus.mirror=FOLDER"):
        resolver.fetch(wanted, tmp_path / "file", ignore)


@pytest.mark.parametrize("content_type", ["text/html; charset=utf-8", "application/octet-stream"])
def test_an_html_page_in_place_of_the_file_is_refused(
    server: TestServer, resolver: Resolver, tmp_path: Path, content_type: str
) -> None:
    page = answer(200, b"<!DOCTYPE html><html>Please log in.</html>", content_type=content_type)

    with pytest.raises(DataError, match="answered with an HTML page"):
        resolver.fetch(server.wanted(page), tmp_path / "file", ignore)
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_checksum_names_both(server: TestServer, resolver: Resolver, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"train.de.gz has sha256 {TEXT_SHA256}.*expects {OTHER_SHA256}"):
        resolver.fetch(server.wanted(WHOLE, sha256=OTHER_SHA256), tmp_path / "file", ignore)
    assert list(tmp_path.iterdir()) == []


def test_a_local_file_is_copied_and_checked(resolver: Resolver, tmp_path: Path) -> None:
    path = tmp_path / "a file?.gz"
    path.write_bytes(TEXT)

    for address in (str(path), path.as_uri()):
        resolver.fetch(WantedFile("news", address, TEXT_SHA256), tmp_path / "copy", ignore)
        assert (tmp_path / "copy").read_bytes() == TEXT
    with pytest.raises(DataError, match=rf"has sha256 {TEXT_SHA256}.*expects {OTHER_SHA256}"):
        resolver.fetch(WantedFile("news", str(path), OTHER_SHA256), tmp_path / "copy", ignore)


def test_a_relative_path_starts_in_the_working_folder(
    resolver: Resolver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.de").write_bytes(TEXT)
    monkeypatch.chdir(tmp_path)

    assert resolver.find(WantedFile("news", "train.de", "")) == Path("train.de")


def test_an_unknown_scheme_is_refused(resolver: Resolver) -> None:
    with pytest.raises(DataError, match=r"s3://bucket/train.de: give a path, or a file://"):
        resolver.find(WantedFile("news", "s3://bucket/train.de", ""))


def test_the_mirror_goes_before_the_network(server: TestServer, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    (mirror / "another name").write_bytes(TEXT)
    (mirror / "train.de.gz").write_bytes(b"other")
    resolver = Resolver(str(mirror))

    assert resolver.find(server.wanted(sha256=TEXT_SHA256)) == mirror / "another name"
    assert resolver.find(server.wanted(sha256=OTHER_SHA256)) == mirror / "train.de.gz"
    assert resolver.find(server.wanted()) == mirror / "train.de.gz"
    assert resolver.find(server.wanted(name="dev.de.gz")) is None
    assert resolver.find(server.wanted(sha256=hashlib.sha256(b"nowhere").hexdigest())) is None
    assert server.requests == []


def test_a_mirror_that_does_not_exist_is_refused(server: TestServer, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"corpus.mirror=.*gone: no such folder"):
        Resolver(str(tmp_path / "gone")).find(server.wanted())


def test_the_same_content_has_the_same_identity_wherever_it_lies(tmp_path: Path) -> None:
    local = tmp_path / "train.de.gz"
    local.write_bytes(TEXT)
    by_path = sources.identity(config_of(str(local)))

    assert by_path["train"] == [{"name": "news", "source": TEXT_SHA256, "target": TEXT_SHA256}]
    assert by_path == sources.identity(config_of("https://host.invalid/x.gz", sha256=TEXT_SHA256))
    assert by_path == sources.identity(
        config_of("https://host.invalid/x.gz", sha256=TEXT_SHA256, mirror=tmp_path, licence="free")
    )
    assert by_path == sources.identity(config_of("gone/train.de.gz", mirror=tmp_path))


def test_an_unpinned_address_is_its_own_identity() -> None:
    identity = sources.identity(config_of("https://host.invalid/x.gz"))

    assert identity["train"][0]["source"] == "https://host.invalid/x.gz"


def test_the_toy_corpus_is_its_parameters() -> None:
    config = PipelineConfig.model_validate({"name": "test", "corpus": {"toy": {"pairs": 1000}}})

    assert sources.identity(config)["toy"]["pairs"] == 1000


@pytest.mark.parametrize("sha256", ["", TEXT_SHA256])
def test_a_local_file_that_does_not_exist_is_found_before_anything_runs(sha256: str) -> None:
    with pytest.raises(DataError, match=r"corpus news, source side: gone/train.en: no such file.*corpus.mirror=FOLDER"):
        sources.identity(config_of("gone/train.en", sha256=sha256))


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not a file that may be read"):
        sources.identity(config_of(str(tmp_path)))


def test_a_corpus_has_two_labelled_sides() -> None:
    files = ParallelFiles(name="news", source="a.en", target="a.de", target_sha256=TEXT_SHA256)

    assert sources.sides(files) == {
        "source": WantedFile("corpus news, source side", "a.en", ""),
        "target": WantedFile("corpus news, target side", "a.de", TEXT_SHA256),
    }
