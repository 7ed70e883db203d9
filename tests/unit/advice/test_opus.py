"""The list of OPUS, from a server on the loopback that answers as OPUS does."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from support.facts import raises

from nmt_core.advice import decisions, opus, recipe
from nmt_core.advice.findings import Findings, Wishes
from nmt_core.advice.machine import Machine
from nmt_core.corpus.fetching.fetcher import Fetcher, Patience
from nmt_core.errors import ConfigError, DataError
from nmt_core.recipes.recipe import load_recipe

LISTED = [
    ("NLLB", "v1", 20_000_000, 3_000_000),
    ("OpenSubtitles", "v2024", 1_400_000, 90_000),
    ("TED2020", "v1", 390_000, 40_000),
    ("QED", "v2.0a", 300_000, 30_000),
    ("CCAligned", "v1", 250_000, 30_000),
    ("Tatoeba", "v2023-04-12", 9_000, 500),
    ("GNOME", "v1", 150, 10),
]
UNUSUAL: list[Any] = [{"corpus": "X", "version": "v1", "alignment_pairs": "", "size": None}, {"id": 7}, "text"]


@pytest.fixture
def api() -> Iterator[str]:
    """Address of a list of corpora in English and Korean. Other languages have none."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)
            fits = (query["source"], query["target"], query["preprocessing"]) == (["en"], ["ko"], ["moses"])
            known = [
                {"corpus": name, "version": version, "alignment_pairs": pairs, "size": size, "latest": "True"}
                for name, version, pairs, size in LISTED
            ]
            body = json.dumps({"corpora": [*known, *UNUSUAL] if fits else []}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/opusapi/"
    server.shutdown()
    server.server_close()
    thread.join()


def look(api: str, folder: Path, *places: str, most: int = 1_000_000, **wishes: Any) -> Findings:
    with Fetcher(folder, patience=Patience(attempts=1, pause=0.01)) as fetcher:
        return opus.look(places, Wishes(**wishes), fetcher.json, most, api)


def names(found: Findings) -> list[str]:
    return [corpus.entry["address"].removeprefix("opus:") for corpus in found.corpora]


def test_a_pair_takes_translated_text_before_crawled_text(api: str, tmp_path: Path) -> None:
    found = look(api, tmp_path, "opus:ko-en")
    assert found.languages == ("ko", "en")
    assert names(found) == ["TED2020/v1", "QED/v2.0a", "Tatoeba/v2023-04-12", "CCAligned/v1"]
    assert (found.pairs, found.sample) == (949_000, None)
    assert any("OpenSubtitles/v2024 (1,400,000 pairs)" in note for note in found.notes)
    assert names(look(api, tmp_path, "opus:en-ko", most=30_000_000))[-1] == "CCAligned/v1"
    assert "NLLB/v1" in names(look(api, tmp_path, "opus:en-ko", most=30_000_000))
    assert names(look(api, tmp_path, "opus:en-ko", most=8_000)) == ["Tatoeba/v2023-04-12"]


def test_the_recipe_loads(api: str, tmp_path: Path) -> None:
    found = look(api, tmp_path, "opus:en-ko")
    parts = decisions.decide(found, Machine(4, 16 * 10**9, 0))
    recipe.write(tmp_path / "a.yaml", recipe.rendered(found, parts, found.notes), force=False)
    config = load_recipe(str(tmp_path / "a.yaml"))
    assert config.corpus.train[0].address == "opus:TED2020/v1"
    assert config.name == "opus-en-ko"


def test_named_corpora_are_taken_as_they_are(api: str, tmp_path: Path) -> None:
    found = look(api, tmp_path, "opus:NLLB/v1", "opus:Tatoeba/v2023-04-12", languages=("en", "ko"))
    assert (names(found), found.pairs) == (["NLLB/v1", "Tatoeba/v2023-04-12"], 20_009_000)


@pytest.mark.parametrize(
    ("place", "wishes", "facts"),
    [
        ("opus:en-fr", {}, ("no corpus in these languages", "opus:en-fr", "https://opus.nlpl.eu")),
        ("opus:en-en", {}, ("one language twice", "opus:en-ko")),
        ("opus:english", {}, ("opus:english", "opus:en-ko", "opus:Tatoeba/v2023-04-12")),
        ("opus:Tatoeba/v2023-04-12", {}, ("names no languages", "--languages en-ko")),
        ("opus:Tatoeba/v1", {"languages": ("en", "ko")}, ("does not list", "opus:Tatoeba/v2023-04-12")),
        ("opus:Nothing/v1", {"languages": ("en", "ko")}, ("does not list", "nmt init opus:en-ko")),
        ("opus:GNOME/v1", {"languages": ("en", "ko")}, ("150 pairs", "too few", "add text")),
    ],
)
def test_an_address_that_leads_nowhere_is_refused(
    place: str, wishes: dict[str, Any], facts: tuple[str, ...], api: str, tmp_path: Path
) -> None:
    with raises((ConfigError, DataError), *facts):  # type: ignore[arg-type]
        look(api, tmp_path, place, **wishes)


def test_without_a_network_one_line_says_so(tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound, and not listening
        with raises(DataError, "cannot fetch", "needs the network", "nmt init text.en text.de"):
            look(f"http://127.0.0.1:{held.getsockname()[1]}/", tmp_path, "opus:en-ko")
