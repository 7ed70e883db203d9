"""The service answers in the forms that its page describes, and explains what it refuses."""

import re
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.until import until

from flows.serving.app import Limits, Service, make_app
from flows.serving.model import CurrentModel
from flows.serving.server import bound, require_token
from flows.settings import Settings
from nmt_core.config import SearchConfig
from nmt_core.errors import ConfigError
from nmt_core.terms.reading import read_terms
from nmt_core.translator import Translator

LINES = ["the cat sees a dog.", "", "a big house"]
LIMITS = Limits(body_bytes=40_000, lines=20, waiting_lines=30, seconds=600)


@pytest.fixture(scope="module")
def model(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> CurrentModel:
    """The tiny model, loaded."""
    return CurrentModel(str(tiny_bundle), Settings.load({"NMT_HOME": str(tmp_path_factory.mktemp("home"))}))


@pytest.fixture(scope="module")
def service(model: CurrentModel) -> Service:
    """A service of one thread."""
    return Service(model, threads=1, limits=LIMITS, reload_seconds=0)


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[TestClient]:
    """Client of that service, which requires no token."""
    with TestClient(make_app(service, token="")) as client:
        yield client


@pytest.fixture(scope="module")
def texts(tiny_bundle: Path) -> list[str]:
    """Translations of the lines."""
    return [one.text for one in Translator.load(tiny_bundle).translate(LINES)]


def asked(client: TestClient, **request: Any) -> Any:
    answer = client.post("/translate", json=request)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_list_and_a_line(client: TestClient, texts: list[str], model: CurrentModel) -> None:
    version = {"model": model.now.version.name, "version": model.now.version.version}
    assert asked(client, text=[LINES[0], None, LINES[2]]) == {"translations": texts} | version
    assert asked(client, text=LINES[0]) == {"translations": texts[:1]} | version
    assert asked(client, text=[]) == {"translations": []} | version


def test_what_is_no_language_is_copied(client: TestClient, texts: list[str]) -> None:
    run = "QUJD" * 200
    whole, part = asked(client, text=[run, f"{LINES[0]} {run}"], output="full")["translations"]
    assert (whole["text"], whole["status"]) == (run, "no_language")
    assert part["text"] == f"{texts[0]} {run}"


def test_the_form_of_libretranslate(client: TestClient, texts: list[str]) -> None:
    assert asked(client, q=LINES[0], source="en", target="ko", format="text") == {"translatedText": texts[0]}
    assert asked(client, q=LINES, source="auto", target="ko") == {"translatedText": texts}
    (pair,) = client.get("/languages").json()
    assert (pair["code"], pair["targets"]) == ("en", ["ko"])


def test_options_of_the_search_and_the_whole_answer(client: TestClient, tiny_bundle: Path) -> None:
    options: dict[str, Any] = {"method": "sample", "n_best": 2, "precision": "fp32", "seed": 7}
    found = asked(client, text=LINES[0], output="full", **options)["translations"][0]
    (right,) = Translator.load(tiny_bundle, SearchConfig(**options)).translate(LINES[:1])
    assert (found["text"], found["status"], found["tokens"]) == (right.text, right.status, right.tokens)
    assert found["score"] == pytest.approx(right.score)
    assert [one["text"] for one in found["n_best"]] == [right.text, right.alternatives[0].text]


def test_a_glossary_of_a_request_and_of_the_service(
    client: TestClient, texts: list[str], tiny_bundle: Path, tmp_path: Path
) -> None:
    found = asked(client, text=LINES, output="full", glossary={"cat": "학생", "dog": None})["translations"]
    assert "학생" in found[0]["text"] and "dog" in found[0]["text"]
    assert [(one["status"], one.get("terms"), one.get("terms_kept")) for one in found[:2]] == [
        ("ok", 2, 2),
        ("empty", None, None),
    ]
    assert asked(client, text=LINES)["translations"] == texts
    (tmp_path / "terms.tsv").write_text("en\tko\ncat\t학생\n")
    glossary = partial(read_terms, str(tmp_path / "terms.tsv"), "")
    settings = Settings.load({"NMT_HOME": str(tmp_path / "home")})
    service = Service(CurrentModel(str(tiny_bundle), settings, glossary), 1, LIMITS, reload_seconds=0)
    with TestClient(make_app(service, token="")) as other:
        assert "학생" in asked(other, text=LINES[0])["translations"][0]
        assert asked(other, text=LINES[0], glossary={})["translations"] == texts[:1]
        refused = other.post("/translate", json={"text": "x", "glossary": {"a": "b", "A": "c"}})
        assert refused.status_code == 400 and "'A' has the translation" in refused.json()["detail"]


def test_html_keeps_its_tags(client: TestClient, texts: list[str]) -> None:
    (page,) = asked(client, text=f"<p>{LINES[0]}</p><code>x</code>", format="html")["translations"]
    assert page == f"<p>{texts[0]}</p><code>x</code>"
    tagged = asked(client, text=["<p>the <b>cat</b> sees it</p>", "", "<br>"], format="html")["translations"]
    assert re.fullmatch("<p>.*<b>.+</b>.*</p>", tagged[0]) and tagged[1:] == ["", "<br>"]


@pytest.mark.parametrize(
    ("request_", "code", "facts"),
    [
        ({"text": "a", "beam_size": 0}, 422, ["beam_size=0", "1"]),
        ({"text": "a", "beam": 2}, 422, ["beam is not a field", "beam_size"]),
        ({}, 422, ["`text`", "`q`"]),
        ({"text": [1]}, 422, ["text: give a line of text, or a list of lines"]),
        ([], 422, ['{"text": "..."}', "application/json"]),
        ({"text": "a", "target": "de"}, 400, ["target='de'", "from en to ko"]),
        ({"text": "a", "n_best": 9, "beam_size": 2}, 400, ["n_best=9", "raise beam_size"]),
        ({"text": ["a"] * 21}, 413, ["21 lines", "20"]),
        ({"text": "a" * 40_000}, 413, ["40,000 bytes"]),
    ],
)
def test_a_mistake_is_explained(request_: Any, code: int, facts: list[str], client: TestClient) -> None:
    answer = client.post("/translate", json=request_)
    assert answer.status_code == code
    assert all(fact in answer.json()["detail"] for fact in facts), answer.text


def test_a_body_that_is_not_json_is_explained(client: TestClient) -> None:
    json = "application/json"
    for body, kind, code in (
        (b"hello", "application/x-www-form-urlencoded", 422),
        (b'{"text": "a', json, 422),
        ('{"text": "caf\xe9"}'.encode("latin-1"), json, 400),
        (b"[" * 20_000, json, 400),  # deeper than any Python reads
    ):
        answer = client.post("/translate", content=body, headers={"Content-Type": kind})
        detail = answer.json()["detail"]
        assert answer.status_code == code and "UTF-8" in detail and "Content-Type: application/json" in detail
    assert client.get("/nowhere").json() == {"detail": "Not Found"}


def test_overload_is_said_and_passes(model: CurrentModel, monkeypatch: pytest.MonkeyPatch) -> None:
    go, began = threading.Event(), threading.Event()
    translate = Translator.translate

    def held(self: Translator, *arguments: Any) -> Any:
        began.set()
        assert go.wait(600)
        return translate(self, *arguments)

    service = Service(model, threads=1, limits=Limits(waiting_lines=2, seconds=600), reload_seconds=0)
    with TestClient(make_app(service, token="")) as client:
        monkeypatch.setattr(Translator, "translate", held)
        codes: list[int] = []
        first = threading.Thread(target=lambda: codes.append(client.post("/translate", json={"text": "a"}).status_code))
        first.start()
        assert began.wait(600)
        refused = client.post("/translate", json={"text": ["a", "b", "c"]})
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
        assert client.get("/health").json()["status"] == "ok", "a server that is busy is not dead"
        go.set()
        first.join(600)
        assert codes == [200]
        assert client.post("/translate", json={"text": ["a", "b"]}).status_code == 200


def test_what_takes_too_long_is_given_up(model: CurrentModel, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    monkeypatch.setattr(Translator, "translate", lambda self, lines: [go.wait(600)] * len(lines))
    service = Service(model, threads=1, limits=Limits(seconds=0.01), reload_seconds=0)
    with TestClient(make_app(service, token="")) as client:
        answer = client.post("/translate", json={"text": "a"})
        assert (answer.status_code, "0.01 s" in answer.json()["detail"]) == (503, True)
        monkeypatch.undo()
        go.set()


def test_a_token_is_asked_for_except_by_what_watches(service: Service) -> None:
    app = make_app(service, token="s3cret")
    client = TestClient(app)  # without its lifespan, which would end the service of the other tests
    assert client.get("/health").status_code == 200
    for path in ("/languages", "/metrics"):
        assert client.get(path).status_code == 401
        assert client.get(path, headers={"Authorization": "Bearer wrong"}).status_code == 401
        assert client.get(path, headers={"Authorization": "Bearer s3cret"}).status_code == 200
    assert client.post("/translate", json={"text": "a"}).status_code == 401


def test_metrics_count_requests_lines_and_the_model(client: TestClient, model: CurrentModel) -> None:
    asked(client, text=LINES)
    client.post("/translate", json={})
    text = client.get("/metrics").text
    assert float(re.findall(r'nmt_requests_total\{code="200"\} (\S+)', text)[0]) >= 1
    assert float(re.findall(r'nmt_requests_total\{code="422"\} (\S+)', text)[0]) >= 1
    assert float(re.findall(r'nmt_lines_total\{status="empty"\} (\S+)', text)[0]) >= 1
    assert f'nmt_model{{name="{model.now.version.name}",version="{model.now.version.version}"}} 1.0' in text
    assert "nmt_waiting_lines 0.0" in text and "nmt_request_seconds_bucket" in text


def test_the_pages_need_no_other_host(client: TestClient) -> None:
    for path in ("/docs", "/redoc"):
        page = client.get(path)
        assert page.status_code == 200
        addresses = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        assert addresses and all(address.startswith("/") or address == "#" for address in addresses), addresses
        assert all(client.get(address).status_code == 200 for address in addresses if address != "#")
    assert "/translate" in client.get("/openapi.json").json()["paths"]


def test_another_version_takes_over(tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests get the version that the address last meant. A version that cannot be loaded changes nothing."""
    versions = [tmp_path / name for name in ("first", "second")]
    for version in versions:
        version.symlink_to(tiny_bundle, target_is_directory=True)
    meant = [str(versions[0])]
    monkeypatch.setattr("flows.serving.model.resolve", lambda asked, settings: meant[0])
    model = CurrentModel("models:/x@champion", Settings.load({"NMT_HOME": str(tmp_path)}))
    service = Service(model, threads=1, limits=Limits(), reload_seconds=0.01)
    with TestClient(make_app(service, token="")) as client:
        meant[0] = str(tmp_path / "nothing")
        until(lambda: 'nmt_reloads_total{outcome="failed"}' in client.get("/metrics").text)
        assert client.get("/health").json()["model"] == str(versions[0])
        assert asked(client, text="a")["model"] == str(versions[0])
        meant[0] = str(versions[1])
        until(lambda: client.get("/health").json()["model"] == str(versions[1]))
        assert asked(client, text="a")["model"] == str(versions[1])
        assert f'nmt_model{{name="{versions[0]}"' not in client.get("/metrics").text


def test_other_machines_need_a_token() -> None:
    for host in ("127.0.0.1", "127.1.2.3", "::1", "localhost"):
        require_token(host, "")
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        with pytest.raises(ConfigError, match="NMT_SERVE_TOKEN"):
            require_token(host, "")
        require_token(host, "secret")


def test_an_answer_is_sent_at_once() -> None:
    """Otherwise the body waits 40 ms, until the client acknowledges the head."""
    with bound("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_port_that_is_in_use_is_named() -> None:
    with bound("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"--port {port}: .*in use.*--port 0"):
            bound("127.0.0.1", port)


def test_the_target_language_of_a_model_for_many(
    into_many: Callable[..., Path], tiny_bundle: Path, tmp_path: Path
) -> None:
    bundle = into_many(tiny_bundle, tmp_path / "many", "source", ["en-ko", "ko-en", "en-de"])
    settings, translator = Settings.load({"NMT_HOME": str(tmp_path)}), Translator.load(bundle)
    service = Service(CurrentModel(str(bundle), settings), threads=1, limits=LIMITS, reload_seconds=0)
    with TestClient(make_app(service, token="")) as client:
        expected = {to: translator.translate(LINES[0], to=to).text for to in ("ko", "en", "de")}
        assert asked(client, text=LINES[0], to="de")["translations"] == [expected["de"]]
        assert asked(client, text=LINES[0], target="en-ko")["translations"] == [expected["ko"]]
        assert asked(client, q=LINES[0], source="ko", target="en") == {"translatedText": expected["en"]}
        for request, facts in (
            ({}, "no target language is named"),
            ({"target": "fr"}, "to='fr'"),
            ({"source": "fr", "target": "de"}, "to='fr-de'"),
        ):
            refused = client.post("/translate", json={"text": LINES[0]} | request)
            assert refused.status_code == 400
            assert facts in refused.json()["detail"]
            assert "ko, en, de" in refused.json()["detail"]
        targets = {one["code"]: one["targets"] for one in client.get("/languages").json()}
        assert targets == {"en": ["ko", "de"], "ko": ["en"]}
