"""Schedules and new text start runs by themselves.

With a SQLAlchemy that does not fit, Prefect shows an active schedule and never fires it.
"""

import functools
import http.server
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.until import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.cpu(50)]

# The scheduler looks at new schedules once a minute, which a test need not wait for
SOON = {"PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "2"}
_WATCHED = """
name: watched
corpus:
  train: [{address}/text.tsv]
split: {{dev_pairs: 10, test_pairs: 10}}
clean: {{min_language_probability: 0}}
schedule: {{watch: "0 0 1 1 *"}}
"""
_SCHEDULED = """
name: scheduled
corpus: {toy: {pairs: 1000, held_out: 10}}
schedule: {watch: "* * * * *"}
"""


def wait_for(what: Callable[[], Any], message: str) -> Any:
    """Return the first true value that a function gives."""
    return until(what, message, every=0.5)


def runs_of(up: Any, deployment: str) -> list[dict[str, Any]]:
    """Flow runs of a deployment, the oldest first."""
    body = {"deployments": {"id": {"any_": [up.deployment(deployment)["id"]]}}, "sort": "START_TIME_ASC"}
    found: list[dict[str, Any]] = up.call("flow_runs/filter", body)
    return found


def done(up: Any, deployment: str, count: int = 1) -> list[dict[str, Any]]:
    """Return the runs that succeeded, once there are this many."""
    runs = runs_of(up, deployment)
    assert not [run for run in runs if run["state"]["type"] in {"FAILED", "CRASHED"}], runs
    ended = [run for run in runs if run["state"]["type"] == "COMPLETED"]
    return ended if len(ended) >= count else []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A web server on this machine, and the file that it serves."""
    folder = tmp_path_factory.mktemp("site")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: Any) -> None: ...

    handler = functools.partial(Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", folder / "text.tsv"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def up(make_nmt: Any, ask: Any, site: tuple[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """`nmt up` for a recipe with a schedule, and one whose text is on that site. Ending it pauses nothing."""
    folder = tmp_path_factory.mktemp("recipes")
    (folder / "scheduled.yaml").write_text(_SCHEDULED)
    (folder / "watched.yaml").write_text(_WATCHED.format(address=site[0]))
    write(site[1], 400, day=1)
    nmt = make_nmt(folder / "home")
    up = ask(nmt)
    up.process = nmt.start("up", *map(str, sorted(folder.glob("*.yaml"))), **SOON)
    try:
        up.wait_until_up()
        yield up
        up.end()
        query = """select s.active, d.paused from deployment d join deployment_schedule s on s.deployment_id = d.id
            join flow f on d.flow_id = f.id where f.name = 'watch' and d.name = 'scheduled'"""
        assert nmt.in_prefect(query) == [(1, 0)]
    finally:
        up.kill()


def write(file: Path, pairs: int, day: int) -> None:
    """Write text with this many pairs, which depends on the day."""
    words = ["river", "stone", "cloud", "apple", "table", "green", "seven", "house", "paper", "night"]
    lines = [
        f"The {words[n % 10]} and the {words[n // 10 % 10]} number {n} .\t번호 {n} 의 {words[n % 10][::-1]} 와 이것 ."
        for n in range(pairs)
    ]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    os.utime(file, (day * 86_400, day * 86_400))


def test_new_text_starts_a_retraining(up: Any, site: tuple[str, Path]) -> None:
    text = site[1]
    body = up.deployment("retrain/watched")["parameters"] | {"until": "clean"}  # the rest would take minutes
    up.call(f"deployments/{up.deployment('retrain/watched')['id']}", {"parameters": body}, "PATCH")
    assert up.wait(up.start("retrain/watched")) == "COMPLETED"
    assert up.wait(up.start("watch/watched")) == "COMPLETED"
    assert len(runs_of(up, "retrain/watched")) == 1, "the first look only remembers"

    write(text, 500, day=2)
    assert up.wait(up.start("watch/watched")) == "COMPLETED"
    (_, second) = wait_for(lambda: done(up, "retrain/watched", 2), "the text has changed, and nothing is retrained")
    assert second["created_by"]["type"] == "AUTOMATION"
    sizes = sorted(file.read_bytes().count(b"\n") for file in up.nmt.home.glob("artifacts/download/*/train/*.tsv"))
    assert sizes == [400, 500], "the new text was fetched"


def test_a_cron_of_a_recipe_fires_every_minute(up: Any) -> None:
    (run,) = wait_for(lambda: done(up, "watch/scheduled"), "the schedule is active, and no flow run ends")[:1]
    assert run["auto_scheduled"]
    assert run["start_time"] and run["end_time"]
    assert list(up.nmt.home.glob("watch/scheduled.json"))
