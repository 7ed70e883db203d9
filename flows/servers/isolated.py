"""Run a module of Prefect as `python -m` does, without searching the working folder for modules.

    python -P -m flows.servers.isolated prefect.engine
    python -P -m flows.servers.isolated prefect worker start --pool cpu

Prefect imports the flow of a deployment with the working folder first in the search path. A folder there with the name
`flows`, as is usual in Prefect projects, or `mlflow` would hide the real one.
"""

import importlib
import runpy
import sys

from prefect.utilities import importtools

if __name__ == "__main__":
    importtools.load_module = lambda module_name: importlib.import_module(module_name)
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
