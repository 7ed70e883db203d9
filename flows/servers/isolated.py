"""Runs a module of Prefect's as `python -m` does, without looking for modules in the working folder.

    python -P -m flows.servers.isolated prefect.engine
    python -P -m flows.servers.isolated prefect worker start --pool cpu

Prefect imports what a deployment names with the working folder in front of everything else. A folder there that is
called `flows`, as is usual in Prefect's projects, or `mlflow`, would hide the real one.
"""

import importlib
import runpy
import sys

from prefect.utilities import importtools

if __name__ == "__main__":
    importtools.load_module = lambda module_name: importlib.import_module(module_name)
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
