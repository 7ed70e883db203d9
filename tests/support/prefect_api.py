"""Requests of tests to our Prefect server, with its password, and with a token against CSRF like its pages."""

import base64
import functools
import json
import urllib.request
from pathlib import Path

_CLIENT = "nmt-tests"


def secret_of(home: Path) -> str:
    """Return the user and the password, with a colon between them, that `nmt up` keeps in a home."""
    return (home / "prefect" / "secret").read_text().strip()


@functools.cache
def headers(api: str, secret: str) -> dict[str, str]:
    """Return the headers of a request that the server of this API takes."""
    password = {"Authorization": f"Basic {base64.b64encode(secret.encode()).decode()}"}
    request = urllib.request.Request(f"{api}/csrf-token?client={_CLIENT}", headers=password)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=120) as response:
        token = json.loads(response.read())["token"]
    own = {"Content-Type": "application/json", "Prefect-Csrf-Token": token, "Prefect-Csrf-Client": _CLIENT}
    return password | own
