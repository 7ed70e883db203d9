"""Count the failed requests of people who click in Prefect's pages while runs write to the same SQLite database.

    python benchmarks/clicks.py --clients 1 4 --patches 500
    python benchmarks/clicks.py --clients 1 4 --patches 500 --deferred      # Prefect as it is installed

A click pauses or resumes a schedule. Meanwhile a flow run is created every two seconds, with its states and fifty lines
of log, and a worker polls and sends heartbeats.
"""

import argparse
import asyncio
import collections
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from flows.servers import servers
from flows.servers.secret import new_secret
from flows.settings import Settings

_DEFERRED = "import flows.servers.prefect_server as it; it._begin_immediately = lambda: None; it.main()"
_CLIENT = "bench"
_NO_ANSWER = 599


class AsItComes(servers.Server):
    """A server whose transactions begin as Prefect begins them."""

    def __init__(self, name: str, command: list[str], *rest: Any) -> None:
        super().__init__(name, ["-c", _DEFERRED, *command[2:]], *rest)


async def measure(api: str, secret: str, clients: int, patches: int) -> str:
    """Send the patches from this many clients at once, beside one run at a time. Return a line about the answers."""
    user, _, password = secret.partition(":")
    async with httpx.AsyncClient(base_url=f"{api}/", auth=(user, password), timeout=120, trust_env=False) as client:
        token = (await client.get("csrf-token", params={"client": _CLIENT})).json()["token"]
        client.headers.update({"Prefect-Csrf-Token": token, "Prefect-Csrf-Client": _CLIENT})
        deployment, schedule = await _deployed(client)
        codes: collections.Counter[int] = collections.Counter()
        others: collections.Counter[int] = collections.Counter()
        seconds: list[float] = []
        waiting = iter(range(patches))

        async def click() -> None:
            for number in waiting:
                start = time.monotonic()
                path = f"deployments/{deployment}/schedules/{schedule}"
                try:
                    codes[(await client.patch(path, json={"active": bool(number % 2)})).status_code] += 1
                except httpx.TransportError:  # Prefect's check of CSRF tokens hangs up when the database is locked
                    codes[_NO_ANSWER] += 1
                seconds.append(time.monotonic() - start)

        aside = [asyncio.create_task(work) for work in (_run(client, deployment, others), _poll(client, others))]
        await asyncio.gather(*(click() for _ in range(clients)))
        for task in aside:
            task.cancel()
        failed = sum(count for code, count in codes.items() if code >= 400)
        aside_failed = sum(count for code, count in others.items() if code >= 400)
        return (
            f"{clients} clients: {failed} of {patches} patches failed; median {statistics.median(seconds):.2f} s, "
            f"longest {max(seconds):.1f} s; beside them {aside_failed} of {others.total()} requests"
        )


async def _deployed(client: httpx.AsyncClient) -> tuple[str, str]:
    flow = (await client.post("flows/", json={"name": "clicked"})).json()["id"]
    await client.post("work_pools/", json={"name": "clicked", "type": "process", "base_job_template": {}})
    schedule = {"active": True, "schedule": {"cron": "*/5 * * * *", "timezone": "UTC"}}
    body = {"name": "clicked", "flow_id": flow, "work_pool_name": "clicked", "schedules": [schedule]}
    made = (await client.post("deployments/", json=body)).json()
    return made["id"], made["schedules"][0]["id"]


async def _run(client: httpx.AsyncClient, deployment: str, codes: collections.Counter[int]) -> None:
    while True:
        body = {"state": {"type": "SCHEDULED"}}
        answer = await client.post(f"deployments/{deployment}/create_flow_run", json=body)
        codes[answer.status_code] += 1
        if answer.status_code < 400:
            run = answer.json()["id"]
            for state in ("PENDING", "RUNNING", "COMPLETED"):
                answer = await client.post(f"flow_runs/{run}/set_state", json={"state": {"type": state}})
                codes[answer.status_code] += 1
            line = {"name": "x", "level": 20, "timestamp": "2026-01-01T00:00:00Z", "flow_run_id": run}
            logs = [line | {"message": f"line {number}"} for number in range(50)]
            codes[(await client.post("logs/", json=logs)).status_code] += 1
        await asyncio.sleep(2)


async def _poll(client: httpx.AsyncClient, codes: collections.Counter[int]) -> None:
    while True:
        for path, body in {"get_scheduled_flow_runs": {}, "workers/heartbeat": {"name": "worker"}}.items():
            codes[(await client.post(f"work_pools/clicked/{path}", json=body)).status_code] += 1
        await asyncio.sleep(2)


def main() -> None:
    """Start a server on an empty home, measure, and end it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--patches", type=int, default=500)
    parser.add_argument("--deferred", action="store_true", help="as Prefect comes, without BEGIN IMMEDIATE")
    options = parser.parse_args()
    if options.deferred:
        servers.Server = AsItComes  # type: ignore[misc]
    with tempfile.TemporaryDirectory() as folder, servers.held_port() as port:
        os.environ["NMT_HOME"] = folder
        settings = Settings.load()
        settings.prepare()
        Path(folder, "logs").mkdir()
        secret = new_secret()
        server = servers.start_prefect(settings, port, secret, embedded=False)
        api = f"http://127.0.0.1:{port}/api"
        try:
            server.wait_until(f"{api}/health")
            print("BEGIN DEFERRED" if options.deferred else "BEGIN IMMEDIATE", flush=True)
            for clients in options.clients:
                print(asyncio.run(measure(api, secret, clients, options.patches)), flush=True)
        finally:
            server.stop(grace=3)


if __name__ == "__main__":
    main()
