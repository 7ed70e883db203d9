"""A change of the text is reported until Prefect has received it."""

import json
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import get_client
from prefect.events import Event, Resource
from prefect.events.clients import PrefectEventsClient
from prefect.states import Completed, Running

from flows.retrain import retrain
from flows.watch import CHANGED, EventError, resource_of, tell, watch
from nmt_core.config import PipelineConfig
from nmt_core.errors import ConfigError


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "text.tsv"
    file.write_text("one\teins\n")
    return file


@pytest.fixture
def config(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PipelineConfig:
    """A recipe that reads this text, in a home of its own."""
    monkeypatch.setenv("NMT_HOME", str(tmp_path))
    return PipelineConfig.model_validate({"name": "mine", "corpus": {"train": [str(text)]}})


def send_to(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send events to another server, without long waits."""

    def client(**options: Any) -> PrefectEventsClient:
        return PrefectEventsClient(api_url=f"http://127.0.0.1:{port}/api", **options)

    monkeypatch.setattr("flows.watch.get_events_client", client)
    monkeypatch.setattr("flows.watch._TRIES", 1)


def test_a_change_that_prefect_was_not_told_of_is_found_again(
    config: PipelineConfig,
    text: Path,
    tmp_path: Path,
    prefect_api: str,
    free_port: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = tmp_path / "watch" / "mine.json"
    assert watch(config) == [], "the first look only remembers"
    before = json.loads(state.read_text())
    text.write_text("two\tzwei\n")
    with monkeypatch.context() as patch:
        send_to(free_port, patch)
        with pytest.raises(
            EventError, match=r"text has changed, but Prefect did not accept the event .*run `watch` again"
        ):
            watch(config)
    assert json.loads(state.read_text()) == before
    assert watch(config) == [str(text)]
    assert json.loads(state.read_text()) != before
    assert watch(config) == [], "a change is told once"


def test_a_change_beside_a_retraining_is_left_to_the_next_check(
    config: PipelineConfig, text: Path, tmp_path: Path, prefect_api: str
) -> None:
    """Prefect would skip the retraining that the event starts, and the text would not be checked again."""
    state = tmp_path / "watch" / "mine.json"
    watch(config)
    before = state.read_text()
    text.write_text("two\tzwei\n")
    with get_client(sync_client=True) as client:
        started = client.create_flow_run(
            retrain, parameters={"config": config.model_dump(mode="json")}, state=Running()
        )
        assert watch(config) == [str(text)]
        assert state.read_text() == before, "it is found again"
        queued = PipelineConfig.model_validate(config.model_dump() | {"schedule": {"overlap": "queue"}})
        assert watch(queued) == [str(text)]
        assert state.read_text() != before, "Prefect queues it"
        state.write_text(before)
        client.set_flow_run_state(started.id, Completed(), force=True)
    assert watch(config) == [str(text)]
    assert state.read_text() != before


def test_a_server_that_takes_the_event_is_enough(prefect_api: str) -> None:
    tell(Event(event=CHANGED, resource=Resource({"prefect.resource.id": resource_of("mine")})))


def test_text_on_the_web_needs_a_lock_file(config: PipelineConfig, prefect_api: str) -> None:
    on_the_web = {"name": "mine", "corpus": {"train": ["https://example.org/a.tsv"]}}
    with pytest.raises(
        ConfigError, match=r"mine: corpus\.lock names no file, .*: set corpus\.lock to a file, or pin the text"
    ):
        watch(PipelineConfig.model_validate(on_the_web))
