"""The services of infra/compose.yaml in real containers, by the commands that Compose would run.

All names have a prefix: containers, networks and volumes of one project, which `remove` deletes. Capabilities,
read-only roots, networks, volumes, restarts and health checks follow the file. The engine has no service manager here,
so tests run the checks. Ports of the host are free ones.
"""

import contextlib
import json
import os
import re
import secrets
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import yaml

from support import containers
from support.until import until

_FILE = containers.ROOT / "infra" / "compose.yaml"
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")
_STAND_INS = {"postgres", "proxy", "s3"}
_SECONDS_TO_START = 300.0
_ENDED = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}


class Project:
    """Services of the compose file, by their names there."""

    def __init__(self, values: dict[str, str], ports: dict[str, int]) -> None:
        """Read the compose file.

        Args:
            values: what the file `.env` would hold.
            ports: a port of this machine for each published port.
        """
        self.name = f"nmt-{secrets.token_hex(4)}"
        self.values = values
        self.ports = ports
        described = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
        self.services: dict[str, dict[str, Any]] = described["services"]
        self._networks: dict[str, dict[str, Any]] = described["networks"]
        self._volumes: dict[str, Any] = described["volumes"]
        self._folder = Path(tempfile.mkdtemp(prefix=f"{self.name}-"))

    def create(self) -> None:
        """Make networks and volumes."""
        for name, network in self._networks.items():
            internal = ["--internal"] if network.get("internal") else []
            containers.podman("network", "create", *internal, self.full(name))
        for name in self._volumes:
            containers.podman("volume", "create", self.full(name))

    def remove(self) -> None:
        """Remove everything with the prefix, without waiting."""
        named = containers.podman("ps", "--all", "--quiet", "--filter", f"name=^{self.name}-").split()
        if named:
            containers.run("podman", "rm", "--force", "--time", "0", *named)
        for name in self._networks:
            containers.run("podman", "network", "rm", "--force", self.full(name))
        for name in self._volumes:
            containers.run("podman", "volume", "rm", "--force", self.full(name))

    def full(self, name: str) -> str:
        """Return the name of a container, network or volume with the project's prefix."""
        return f"{self.name}-{name}"

    def up(self, *services: str) -> None:
        """Start services in this order. A service that ends by itself must succeed. Others must become healthy."""
        for service in services:
            if containers.run("podman", "container", "exists", self.full(service)).returncode:
                containers.podman("run", "--detach", *self._options(service), *self._command(service))
            else:
                containers.podman("start", self.full(service))
            self.wait(service)

    def wait(self, service: str) -> None:
        """Return when a service is healthy or has ended well."""
        if self.services[service]["restart"] == "no":
            until(lambda: self.state(service)["Status"] == "exited", lambda: self.log(service), _SECONDS_TO_START, 0.5)
            assert self.state(service)["ExitCode"] == 0, self.log(service)
        else:
            until(lambda: self.is_healthy(service), lambda: self.log(service), _SECONDS_TO_START, 1)

    def is_healthy(self, service: str) -> bool:
        """Return True if the service's own check succeeds in its container."""
        check = self.services[service]["healthcheck"]["test"]
        assert check[0] == "CMD"
        return containers.run("podman", "exec", self.full(service), *check[1:]).returncode == 0

    def state(self, service: str) -> dict[str, Any]:
        """Return the engine's description of a container's process."""
        state: dict[str, Any] = json.loads(containers.podman("inspect", self.full(service)))[0]["State"]
        return state

    def log(self, service: str) -> str:
        """Return the end of a service's output."""
        done = containers.run("podman", "logs", "--tail", "80", self.full(service))
        return done.stdout + done.stderr

    def execute(self, service: str, *command: str, data: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command in the container of a service."""
        return containers.run("podman", "exec", "--interactive", self.full(service), *command, input=data)

    def outside(
        self, command: list[str], environment: dict[str, str], data: str = ""
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command on another machine: a container that shares only the proxy's network."""
        address = self.address("proxy", "outside")
        hosts = [word for page in ("prefect", "mlflow") for word in ("--add-host", f"{page}.localhost:{address}")]
        options = ["--rm", "--interactive", "--network", self.full("outside"), *hosts, "--read-only", "--tmpfs", "/tmp"]
        options += [
            "--volume",
            f"{self.authority()}:/authority.crt:ro",
            "--env-file",
            str(self._environment(environment)),
        ]
        return containers.run("podman", "run", *options, self.image("worker"), *command, input=data, timeout=1_500)

    def authority(self) -> Path:
        """Return a file with the certificate of the authority that the proxy has made for itself."""
        file = self._folder / "authority.crt"
        done = self.execute("proxy", "cat", "/data/caddy/pki/authorities/local/root.crt")
        assert done.returncode == 0, done.stderr
        file.write_text(done.stdout)
        return file

    def address(self, service: str, network: str) -> str:
        """Return the address of a service in a network."""
        networks = json.loads(containers.podman("inspect", self.full(service)))[0]["NetworkSettings"]["Networks"]
        return str(networks[self.full(network)]["IPAddress"])

    def image(self, service: str) -> str:
        """Return the image that a service runs: ours, or the replacement of an image that cannot be pulled."""
        return containers.build_stand_in(service) if service in _STAND_INS else containers.build("cpu")

    def prefect(self, path: str, body: Any = None) -> Any:
        """Send a request to the API of Prefect from within its container. Return None while it is away."""
        code = (
            "import base64, json, os, sys, urllib.request as u\n"
            "path, body = json.load(sys.stdin)\n"
            "login = base64.b64encode(os.environ['PREFECT_SERVER_API_AUTH_STRING'].encode()).decode()\n"
            "api = 'http://127.0.0.1:4200/api/'\n"
            "headers = {'Authorization': f'Basic {login}', 'Content-Type': 'application/json'}\n"
            "def ask(path, body):\n"
            "    data = None if body is None else json.dumps(body).encode()\n"
            "    return json.load(u.urlopen(u.Request(api + path, data, headers)))\n"
            "client = 'nmt-tests'\n"
            "token = ask(f'csrf-token?client={client}', None)['token']\n"
            "headers |= {'Prefect-Csrf-Token': token, 'Prefect-Csrf-Client': client}\n"
            "print(json.dumps(ask(path, body)))\n"
        )
        done = self.execute("prefect", "python", "-c", code, data=json.dumps([path, body]))
        return json.loads(done.stdout) if done.returncode == 0 else None

    def retrain(self, config: dict[str, Any]) -> str:
        """Submit a retraining to the work pool, and return the id of its flow run."""
        deployment = until(
            lambda: self.prefect("deployments/name/retrain/quickstart"), lambda: self.log("prefect"), every=1
        )
        body = {"parameters": {"config": config}, "state": {"type": "SCHEDULED"}}
        return str(until(lambda: self.prefect(f"deployments/{deployment['id']}/create_flow_run", body), every=1)["id"])

    def ended(self, flow_run: str, seconds: float = 900) -> dict[str, Any]:
        """Wait for the end of a flow run, and return its state."""

        def end() -> dict[str, Any] | None:
            found = self.prefect(f"flow_runs/{flow_run}")
            return found["state"] if found and found["state"]["type"] in _ENDED else None

        return until(end, lambda: self.log("worker"), seconds, every=3) or {}

    def _options(self, service: str) -> list[str]:
        described = self.services[service]
        options = ["--name", self.full(service), "--restart", described["restart"]]
        for network in described["networks"]:
            options += ["--network", f"{self.full(network)}:alias={service}"]
        environment = {key: self._filled(value) for key, value in described["environment"].items()}
        options += ["--env-file", str(self._environment(environment, service))]
        for volume in described.get("volumes", ()):
            source, _, rest = volume.partition(":")
            place = str(_FILE.parent / source) if source.startswith(".") else self.full(source)
            options += ["--volume", f"{place}:{rest}"]
        for port in described.get("ports", ()):
            host, _, inside = self._filled(port).rsplit(":", 2)
            options += ["--publish", f"{host}:{self.ports[inside]}:{inside}"]
        if described.get("read_only"):
            options += ["--read-only", "--read-only-tmpfs=false"]
        for key, option in {"tmpfs": "--tmpfs", "cap_drop": "--cap-drop", "cap_add": "--cap-add"}.items():
            options += [word for value in described.get(key, ()) for word in (option, value)]
        options += [word for value in described.get("security_opt", ()) for word in ("--security-opt", value)]
        options += ["--init"] * bool(described.get("init"))
        if "stop_grace_period" in described:
            options += ["--stop-timeout", described["stop_grace_period"].removesuffix("s")]
        return [*options, self.image(service)]

    def _command(self, service: str) -> list[str]:
        return [self._filled(word) for word in self.services[service].get("command", ())]

    def _environment(self, environment: dict[str, str], name: str = "outside") -> Path:
        """Return a file that only this user can read, because every user sees a command line."""
        file = self._folder / f"{name}.env"
        with contextlib.suppress(FileNotFoundError):
            file.unlink()
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as output:
            output.writelines(f"{key}={value}\n" for key, value in environment.items())
        return file

    def _filled(self, value: Any) -> str:
        return _VARIABLE.sub(
            lambda found: self.values.get(found[1]) or (found[3] if found[2] == "-" else ""), str(value)
        )
