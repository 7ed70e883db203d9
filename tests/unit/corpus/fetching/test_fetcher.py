"""The downloader against a server with every fault that servers have."""

import base64
import contextlib
import gzip
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.until import patient, until

from nmt_core.corpus.fetching import partial
from nmt_core.corpus.fetching.fetcher import Fetcher, NotThereError, Patience, StoppedError
from nmt_core.corpus.fetching.partial import PartialFile
from nmt_core.errors import DataError

TEXT = bytes(range(256)) * 1_000
ZIPPED = gzip.compress(b"Ein Hund rennt.\n" * 1_000)
CUT = 100_000
Answers = Callable[..., Any]


@pytest.fixture
def fetcher(tmp_path: Path) -> Fetcher:
    return Fetcher(tmp_path / "parts", patience=Patience(attempts=3, pause=0.01, longest_pause=5, timeout=60))


def fetch(fetcher: Fetcher, address: str) -> bytes:
    part = PartialFile(fetcher.folder, address, address.rpartition("/")[2])
    with part.held():
        fetcher.fetch(part)
        return part.path.read_bytes()


def test_a_file_arrives_unchanged_with_progress(web: Any, good: Answers, fetcher: Fetcher) -> None:
    told: list[tuple[int, int]] = []
    fetcher.on_bytes = lambda address, done, total: told.append((done, total))

    assert fetch(fetcher, web.serve("a.bin", good(TEXT))) == TEXT
    assert told[-1] == (len(TEXT), len(TEXT))
    assert web.asked("Accept-Encoding") == ["identity"]
    assert web.asked("Range") == [None]


def test_a_login_comes_from_netrc_for_its_host_alone(
    web: Any, good: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "logins"
    file.write_text("machine 127.0.0.1 login nmt password sesame\n")
    monkeypatch.setenv("NETRC", str(file))
    assert fetch(Fetcher(tmp_path / "parts"), web.serve("a.bin", good(TEXT))) == TEXT
    file.write_text("machine example.org login nmt password sesame\n")
    assert fetch(Fetcher(tmp_path / "parts"), web.serve("b.bin", good(TEXT))) == TEXT
    assert web.asked("Authorization") == [f"Basic {base64.b64encode(b'nmt:sesame').decode()}", None]
    file.write_text("machine 127.0.0.1 login nmt\nsesame\n")
    with pytest.raises(DataError, match=r"logins: not a netrc file at about line \d: repair it") as raised:
        Fetcher(tmp_path / "parts")
    assert "sesame" not in str(raised.value)


def test_a_connection_cut_in_the_middle_resumes_where_it_broke(web: Any, good: Answers, fetcher: Fetcher) -> None:
    address = web.serve("a.bin", good(TEXT, cut=CUT), good(TEXT, cut=CUT), good(TEXT))

    assert fetch(fetcher, address) == TEXT
    assert web.asked("Range") == [None, f"bytes={CUT}-", f"bytes={2 * CUT}-"]
    assert web.asked("If-Range") == [None, '"one"', '"one"']


def test_a_long_way_in_short_steps_is_no_failure(web: Any, good: Answers, fetcher: Fetcher) -> None:
    """Only attempts without new bytes count."""
    assert fetch(fetcher, web.serve("a.bin", good(TEXT, cut=len(TEXT) // 9))) == TEXT
    assert len(web.requests) == 10


def test_a_server_that_always_cuts_off_at_the_same_byte_is_given_up(web: Any, says: Answers, fetcher: Fetcher) -> None:
    address = web.serve("a.bin", says(200, TEXT[:CUT], Content_Length=str(len(TEXT))))

    with pytest.raises(DataError, match=f"cannot fetch {address}.*--set corpus.mirror=FOLDER"):
        fetch(fetcher, address)
    assert len(web.requests) == 4  # the first brought something new, three did not


def test_the_date_of_the_last_change_vouches_where_there_is_no_strong_etag(
    web: Any, says: Answers, fetcher: Fetcher
) -> None:
    date = "Sat, 31 Jan 2026 12:00:00 GMT"
    cut = says(200, TEXT[:CUT], ETag='W/"weak"', Last_Modified=date, Content_Length=str(len(TEXT)))
    rest = says(206, TEXT[CUT:], Last_Modified=date, Content_Range=f"bytes {CUT}-{len(TEXT) - 1}/{len(TEXT)}")

    assert fetch(fetcher, web.serve("a.bin", cut, rest)) == TEXT
    assert web.asked("If-Range") == [None, date]


def test_without_anything_to_vouch_for_the_rest_it_begins_again(web: Any, says: Answers, fetcher: Fetcher) -> None:
    cut = says(200, TEXT[:CUT], Content_Length=str(len(TEXT)))

    assert fetch(fetcher, web.serve("a.bin", cut, says(200, TEXT))) == TEXT
    assert web.asked("Range") == [None, None]


def test_a_server_that_ignores_the_range_sends_it_all(web: Any, good: Answers, says: Answers, fetcher: Fetcher) -> None:
    address = web.serve("a.bin", good(TEXT, cut=CUT), says(200, TEXT))

    assert fetch(fetcher, address) == TEXT
    assert web.asked("Range") == [None, f"bytes={CUT}-"]


@pytest.mark.parametrize(
    "place",
    [f"bytes 0-{len(TEXT) - CUT - 1}/{len(TEXT)}", f"bytes {CUT}-{len(TEXT) - 1}/{len(TEXT) + 1}", "nonsense", ""],
)
def test_a_rest_from_another_place_is_not_taken(
    web: Any, good: Answers, says: Answers, fetcher: Fetcher, place: str
) -> None:
    wrong = says(206, TEXT[CUT:], Content_Range=place, ETag='"one"')

    assert fetch(fetcher, web.serve("a.bin", good(TEXT, cut=CUT), wrong, good(TEXT))) == TEXT
    assert web.asked("Range") == [None, f"bytes={CUT}-", None]


def test_a_file_that_changed_between_the_attempts_is_fetched_from_its_beginning(
    web: Any, good: Answers, fetcher: Fetcher
) -> None:
    new = TEXT[::-1]

    assert fetch(fetcher, web.serve("a.bin", good(TEXT, cut=CUT), good(new, '"two"'))) == new


def test_a_rest_with_another_etag_is_not_taken(web: Any, good: Answers, says: Answers, fetcher: Fetcher) -> None:
    """The server should have compared the ETags, but did not."""
    new = TEXT[::-1]
    rest = says(206, new[CUT:], Content_Range=f"bytes {CUT}-{len(TEXT) - 1}/{len(TEXT)}", ETag='"two"')

    assert fetch(fetcher, web.serve("a.bin", good(TEXT, cut=CUT), rest, good(new, '"two"'))) == new


def test_a_file_that_is_whole_already_is_not_sent_again(web: Any, good: Answers, fetcher: Fetcher) -> None:
    address = web.serve("a.bin", good(TEXT))
    fetch(fetcher, address)

    assert fetch(fetcher, address) == TEXT
    assert web.asked("Range") == [None, f"bytes={len(TEXT)}-"]


def test_a_whole_file_that_has_changed_is_fetched_again(web: Any, good: Answers, fetcher: Fetcher) -> None:
    address = web.serve("a.bin", good(TEXT), good(TEXT[:CUT], '"two"'))
    fetch(fetcher, address)

    assert fetch(fetcher, address) == TEXT[:CUT]


@pytest.mark.parametrize("length", [len(TEXT) + 1, len(TEXT) * 10])
def test_a_length_that_never_comes_is_a_failure(web: Any, says: Answers, fetcher: Fetcher, length: int) -> None:
    with pytest.raises(DataError, match="cannot fetch"):
        fetch(fetcher, web.serve("a.bin", says(200, TEXT, Content_Length=str(length))))


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_what_passes_is_tried_again(web: Any, good: Answers, says: Answers, fetcher: Fetcher, status: int) -> None:
    assert fetch(fetcher, web.serve("a.bin", says(status), good(TEXT))) == TEXT


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 204])
def test_what_lasts_is_not_tried_again(web: Any, says: Answers, fetcher: Fetcher, status: int) -> None:
    with pytest.raises(DataError, match=f"the server answered {status}") as caught:
        fetch(fetcher, web.serve("a.bin", says(status)))
    assert len(web.requests) == 1
    assert isinstance(caught.value, NotThereError) == (status in {404, 410})


class Clock(threading.Event):
    """Clock that records each wait, and returns at once."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout or 0.0)
        return False


def test_a_server_that_asks_to_wait_is_waited_for(web: Any, good: Answers, says: Answers, tmp_path: Path) -> None:
    clock = Clock()
    fetcher = Fetcher(tmp_path / "parts", patience=Patience(attempts=3, pause=0.01), stop=clock)
    assert fetch(fetcher, web.serve("a.bin", says(503, Retry_After="7"), good(TEXT))) == TEXT
    assert clock.pauses == [7]


def test_a_server_that_never_gets_well_is_given_up(web: Any, says: Answers, fetcher: Fetcher) -> None:
    with pytest.raises(DataError, match="the server answered 503 Service Unavailable: check the address"):
        fetch(fetcher, web.serve("a.bin", says(503)))
    assert len(web.requests) == 3


def test_pauses_grow_to_a_bound_and_are_left_to_chance_in_part(web: Any, says: Answers, tmp_path: Path) -> None:
    runs = []
    for _ in range(20):
        clock = Clock()
        patience = Patience(attempts=6, pause=1.0, longest_pause=6.0)
        with Fetcher(tmp_path / "parts", patience=patience, stop=clock) as fetcher, pytest.raises(DataError):
            fetch(fetcher, web.serve("a.bin", says(503)))
        runs.append(clock.pauses)

    for pauses in runs:
        assert len(pauses) == 5
        for number, pause in enumerate(pauses):
            assert min(2**number / 2, 6) <= pause <= min(2**number, 6)
    assert len({pauses[0] for pauses in runs}) > 1
    assert max(pauses[-1] for pauses in runs) == 6


def test_redirections_are_followed_but_not_for_ever(web: Any, good: Answers, says: Answers, fetcher: Fetcher) -> None:
    web.serve("there.bin", good(TEXT))

    assert fetch(fetcher, web.serve("a.bin", says(302, Location="/there.bin"))) == TEXT
    with pytest.raises(DataError, match="more than 10 redirections"):
        fetch(fetcher, web.serve("loop", says(302, Location="/loop")))


def test_a_server_that_drips_is_left_and_what_it_sent_is_kept(web: Any, good: Answers, tmp_path: Path) -> None:
    """One byte comes every minute, by the clock of the fetcher."""
    done, now = threading.Event(), [0.0]

    def drip(request: Any) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(TEXT)))
        request.send_header("ETag", '"one"')
        request.end_headers()
        with contextlib.suppress(OSError):  # it is left
            for place in itertools.count():
                request.wfile.write(TEXT[place : place + 1])
                now[0] += 60
                if done.wait(0.02):
                    return

    patience = Patience(attempts=2, pause=0.01, timeout=600)
    fetcher = Fetcher(tmp_path / "parts", patience=patience, clock=lambda: now[0])
    try:
        assert fetch(fetcher, web.serve("a.bin", drip, good(TEXT))) == TEXT
    finally:
        done.set()
    assert web.asked("If-Range") == [None, '"one"']


def test_a_server_that_falls_silent_is_left(web: Any, tmp_path: Path) -> None:
    done = threading.Event()
    fetcher = Fetcher(tmp_path / "parts", patience=Patience(attempts=2, pause=0.01, timeout=0.1))

    try:
        with pytest.raises(DataError, match="cannot fetch"):
            fetch(fetcher, web.serve("a.bin", lambda _: done.wait()))
    finally:
        done.set()


def test_no_network_is_one_clear_error(fetcher: Fetcher) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed_soon:
        address = f"http://127.0.0.1:{closed_soon.getsockname()[1]}/train.en"

    with pytest.raises(DataError, match=f"cannot fetch {address}: .*refused.*--set corpus.mirror=FOLDER"):
        fetch(fetcher, address)


@pytest.mark.parametrize("content_type", ["text/html; charset=utf-8", "application/octet-stream"])
def test_a_page_in_place_of_the_file_is_refused(web: Any, says: Answers, fetcher: Fetcher, content_type: str) -> None:
    page = says(200, b"<!DOCTYPE html><html>Please log in.</html>", Content_Type=content_type)

    with pytest.raises(DataError, match="answered with an HTML page"):
        fetch(fetcher, web.serve("a.zip", page))
    assert not [path for path in fetcher.folder.rglob("*") if path.name == "a.zip"]


@pytest.mark.parametrize("name", ["a.gz", "a.tgz", "a.zst", "a.xz", "a.bz2", "a.zip", "a.parquet"])
def test_a_file_that_begins_as_its_name_does_not_promise_is_refused(
    web: Any, good: Answers, fetcher: Fetcher, name: str
) -> None:
    with pytest.raises(DataError, match=rf"{name}: not a .* file, because it begins with b'Error"):
        fetch(fetcher, web.serve(name, good(b"Error: quota exceeded\n")))


def test_packing_for_the_way_is_undone(web: Any, says: Answers, fetcher: Fetcher) -> None:
    packed = says(200, gzip.compress(TEXT), Content_Encoding="gzip")

    assert fetch(fetcher, web.serve("a.txt", packed)) == TEXT


def test_a_stored_gz_that_is_labelled_as_packed_for_the_way_stays_one(
    web: Any, says: Answers, fetcher: Fetcher
) -> None:
    assert fetch(fetcher, web.serve("a.gz", says(200, ZIPPED, Content_Encoding="gzip"))) == ZIPPED


def test_a_host_gets_two_connections_at_a_time(web: Any, good: Answers, fetcher: Fetcher) -> None:
    change, counts, pair = threading.Lock(), [0], threading.Barrier(2)

    def refusing(request: Any) -> None:
        with change:
            counts.append(counts[-1] + 1)
            is_one_too_many = counts[-1] > 2
        pair.wait(patient(60))  # two are here at one time...
        time.sleep(0.05)  # ...and a third would come
        with change:  # before the last byte is sent, at which the client may begin another
            counts.append(counts[-1] - 1)
        request.send_error(403) if is_one_too_many else good(TEXT)(request)

    addresses = [web.serve(f"{number}.bin", refusing) for number in range(6)]
    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(lambda address: fetch(fetcher, address), addresses)) == [TEXT] * 6
    assert max(counts) == 2


def test_two_threads_that_want_the_same_file_fetch_it_once(web: Any, good: Answers, fetcher: Fetcher) -> None:
    address = web.serve("a.bin", good(TEXT))

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(lambda _: fetch(fetcher, address), range(2))) == [TEXT] * 2
    assert web.asked("Range") == [None, f"bytes={len(TEXT)}-"]


def test_a_run_that_is_being_ended_fetches_no_more(web: Any, good: Answers, fetcher: Fetcher) -> None:
    fetcher.on_bytes = lambda address, done, total: fetcher.stop.set()

    with pytest.raises(StoppedError):
        fetch(fetcher, web.serve("a.bin", good(TEXT)))


def test_no_server_is_waited_for_when_the_run_is_being_ended(web: Any, says: Answers, tmp_path: Path) -> None:
    fetcher = Fetcher(tmp_path / "parts")
    threading.Timer(0.2, fetcher.stop.set).start()

    with pytest.raises(StoppedError):
        fetch(fetcher, web.serve("a.bin", says(503, Retry_After="100")))


def test_json_comes_with_the_address_of_its_next_page(web: Any, says: Answers, fetcher: Fetcher) -> None:
    more = web.serve_json("more", [2])

    assert fetcher.json(web.serve_json("list", [1], Link=f'<{more}>; rel="next"')) == ([1], more)
    assert fetcher.json(more) == ([2], "")
    with pytest.raises(DataError, match="something other than JSON"):
        fetcher.json(web.serve("page", says(200, b"<html>")))


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.sampled_from(["cut", "cut, no range", "busy", "elsewhere"]), st.integers(1, 99)), max_size=6)
)
def test_whatever_goes_wrong_the_bytes_are_the_files(
    web: Any, good: Answers, says: Answers, tmp_path: Path, faults: list[tuple[str, int]]
) -> None:
    def answer_to(fault: str, place: int) -> Any:
        part = TEXT[: place * len(TEXT) // 100]
        return {
            "cut": good(TEXT, cut=len(part)),
            "cut, no range": says(200, part, Content_Length=str(len(TEXT)), ETag='"one"'),
            "busy": says(503),
            "elsewhere": says(206, part, Content_Range=f"bytes {place}-{place + len(part) - 1}/{len(TEXT)}"),
        }[fault]

    patience = Patience(attempts=8, pause=0.0001)
    with Fetcher(tmp_path / "parts", patience=patience) as fetcher:
        address = web.serve(f"{len(web.answers)}.bin", *(answer_to(*fault) for fault in faults), good(TEXT))
        assert fetch(fetcher, address) == TEXT


def test_a_note_that_a_kill_cut_off_is_no_note(web: Any, good: Answers, fetcher: Fetcher) -> None:
    address = web.serve("a.bin", good(TEXT))
    fetch(fetcher, address)
    (note,) = fetcher.folder.glob("*.json")
    note.write_text('{"address": "http')

    assert fetch(fetcher, address) == TEXT
    assert web.asked("Range") == [None, None]


def test_after_kill_9_the_next_process_asks_for_the_rest(web: Any, good: Answers, fetcher: Fetcher) -> None:
    going_on = threading.Event()

    def slow(request: Any) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(TEXT)))
        request.send_header("ETag", '"one"')
        request.end_headers()
        request.wfile.write(TEXT[:CUT])
        going_on.wait(patient(200))

    address = web.serve("a.bin", slow, good(TEXT))
    program = (
        "import sys; from pathlib import Path; from nmt_core.corpus.fetching.fetcher import Fetcher; "
        "from nmt_core.corpus.fetching.partial import PartialFile; "
        "part = PartialFile(Path(sys.argv[1]), sys.argv[2], 'a.bin')\n"
        "with part.held(): Fetcher(Path(sys.argv[1])).fetch(part)"
    )
    victim = subprocess.Popen([sys.executable, "-c", program, str(fetcher.folder), address])
    until(lambda: sum(path.stat().st_size for path in fetcher.folder.rglob("a.bin")) >= CUT)
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    going_on.set()

    assert fetch(fetcher, address) == TEXT
    assert web.asked("Range") == [None, f"bytes={CUT}-"]


def test_parts_that_no_run_resumes_are_swept_away(web: Any, good: Answers, fetcher: Fetcher) -> None:
    old, new = web.serve("old.bin", good(TEXT)), web.serve("new.bin", good(TEXT))
    fetch(fetcher, old)
    for path in fetcher.folder.rglob("*"):
        os.utime(path, (0, 0))
    fetch(fetcher, new)

    partial.sweep(fetcher.folder)

    assert [path.name for path in fetcher.folder.glob("*.part/*")] == ["new.bin"]
    assert len(list(fetcher.folder.iterdir())) == 3
