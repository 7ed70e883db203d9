"""The earlier address of `flows.servers.worker`, for work pools and services that still name it."""

import runpy
import sys

if __name__ == "__main__":
    message = "nmt: flows.worker is now flows.servers.worker: start it under that name"
    print(message, file=sys.stderr, flush=True)
    runpy.run_module("flows.servers.worker", run_name="__main__", alter_sys=True)
