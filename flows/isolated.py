"""The earlier address of `flows.servers.isolated`, for work pools and services that still name it."""

import runpy
import sys

if __name__ == "__main__":
    message = "nmt: flows.isolated is now flows.servers.isolated: repeat `nmt deploy`, which updates the work pools"
    print(message, file=sys.stderr, flush=True)
    runpy.run_module("flows.servers.isolated", run_name="__main__", alter_sys=True)
