"""Somebody is told of a run that fails, by the automation that `nmt deploy` installs."""

import json
from typing import Any


def test_a_webhook_is_called_for_a_run_that_fails_and_for_no_other(nmt: Any, start_up: Any, webhook: Any) -> None:
    up = start_up(nmt)
    address = f"{webhook.address}?token=sesame"
    assert "created nmt: tell of runs that fail" in nmt("deploy", "quickstart", NMT_NOTIFY=address).stdout
    good = up.start("reconcile/reconcile")
    assert up.wait(good) == "COMPLETED"
    bad = up.start("clean/quickstart", input="0123456789ab")
    assert up.wait(bad) == "FAILED"
    state = up.call(f"flow_runs/{bad}")["state"]
    told = webhook.told_of(bad)
    assert (told["flow"], told["state"], told["message"]) == ("clean", "Failed", state["message"])
    assert told["text"] == f"clean {up.call(f'flow_runs/{bad}')['name']} is Failed"
    assert webhook.paths == ["/failures?token=sesame"], "once, and not for the run that went well"
    kept = [up.call(f"{kind}/filter", {}) for kind in ("automations", "block_documents", "flow_runs", "events")]
    assert "tell of runs that fail" in json.dumps(kept)
    assert "sesame" not in json.dumps(kept), "whoever has the address can post as well"
    up.end()
