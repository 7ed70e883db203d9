"""An error that a user can cause is one line in the run's state, without a traceback in its log."""

import logging

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import StateType
from prefect.flow_engine import run_flow
from prefect.logging import get_logger

from flows.retrain import retrain
from flows.runs.endings import completed, ends_in_words
from nmt_core.errors import ConfigError
from nmt_core.recipes.recipe import load_recipe


@flow(name="judged", persist_result=False)
@ends_in_words
def judged(fails: bool) -> dict[str, int]:
    """Fail on request.

    Args:
        fails: True to fail.
    """
    if fails:
        raise ConfigError("train.max_updates=0: must be 1 or more")
    return completed("BLEU 31.2, champion", {"value": 3})


def test_an_error_of_a_user_is_the_message_of_the_state(prefect_api: str, caplog: pytest.LogCaptureFixture) -> None:
    state = judged(fails=True, return_state=True)
    assert (state.type, state.message) == (StateType.FAILED, "train.max_updates=0: must be 1 or more")
    with pytest.raises(ConfigError, match="must be 1 or more"):
        judged(fails=True)
    assert "Traceback" not in caplog.text
    assert state.message in [record.message for record in caplog.records if record.levelno == logging.ERROR]
    with get_client(sync_client=True) as client:
        kept = client.read_flow_run(state.state_details.flow_run_id)
    assert kept.state and kept.state.message == state.message


def test_a_worker_logs_no_traceback_either(prefect_api: str, caplog: pytest.LogCaptureFixture) -> None:
    with get_client(sync_client=True) as client:
        run = client.create_flow_run(judged, parameters={"fails": True})
    with pytest.raises(ConfigError):
        run_flow(judged, run, {"fails": True}, error_logger=get_logger("prefect.flow_runs"))
    assert not [record for record in caplog.records if record.exc_info]
    assert "must be 1 or more" in caplog.text


def test_a_success_has_a_message_and_its_result(prefect_api: str) -> None:
    assert judged(fails=False) == {"value": 3}
    state = judged(fails=False, return_state=True)
    assert (state.name, state.message) == ("Completed", "BLEU 31.2, champion")


def test_options_that_do_not_fit_together_are_refused_in_one_line(
    prefect_api: str, caplog: pytest.LogCaptureFixture
) -> None:
    values = load_recipe("quickstart").model_dump(mode="json")
    values["average"]["checkpoints"] = 9  # a form checks each value alone
    state = retrain(config=values, return_state=True)  # type: ignore[call-overload]  # as Prefect calls it
    assert state.message == (
        "recipe quickstart: average.checkpoints=9 is more than train.keep_checkpoints=3: keep at least as many"
    )
    state = retrain(config=load_recipe("quickstart"), changes="train.max_update=60", return_state=True)
    assert "train.max_update is not a key: did you mean 'max_updates'?" in str(state.message)
    assert "Traceback" not in caplog.text
