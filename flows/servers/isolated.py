"""Run a module of Prefect as `python -m` does, without searching the working folder for modules.

    python -P -m flows.servers.isolated prefect.engine
    python -P -m flows.servers.isolated prefect worker start --pool cpu

Prefect imports the flow of a deployment with the working folder first in the search path. A folder there with the name
`flows`, as is usual in Prefect projects, or `mlflow` would hide the real one.
"""

import argparse
import importlib
import importlib.util
import runpy
import sys
from typing import Any
from uuid import UUID

from prefect.utilities import importtools

_A_RUN = "prefect.engine"
_USE = "Run a module as `python -m` does, without searching the working folder for modules."


def keep_running_without_a_lease() -> None:
    """Make a run continue if it can no longer prove to the server that it occupies its place in a deployment's limit.

    By default Prefect ends such a run. But servers keep these leases in memory, so that a server that was restarted or
    unreachable for minutes would end every training that its limit counts. The log of the run has a warning instead.
    """
    flow_engine: Any = importlib.import_module("prefect.flow_engine")
    maintained = flow_engine.maintain_concurrency_lease

    def maintain(lease_id: UUID, lease_duration: float, **_: Any) -> Any:
        return maintained(lease_id, lease_duration, raise_on_lease_renewal_failure=False)

    flow_engine.maintain_concurrency_lease = maintain


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -P -m flows.servers.isolated", description=_USE)
    parser.add_argument("module", help="module to run, such as prefect.engine")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the module")
    module = parser.parse_args().module
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        parser.error(f"there is no module {module}: give the name of one that is installed")
    importtools.load_module = lambda module_name: importlib.import_module(module_name)
    del sys.argv[0]
    if sys.argv[0] == _A_RUN:
        keep_running_without_a_lease()
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
