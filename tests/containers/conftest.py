"""Real images and containers. `make containers` installs the programs that these tests need, and runs only them."""

import os
import secrets
from collections.abc import Iterator

import pytest
from support import containers


@pytest.fixture(scope="session", autouse=True)
def _engine() -> None:
    """Fail with the remedy if nothing can be built."""
    needed = " ".join(containers.PROGRAMS)
    assert os.getuid() == 0, "containers are built and run as root here"
    assert not containers.missing(), f"not installed: {containers.missing()}: apt-get install {needed}"


@pytest.fixture(scope="session")
def cpu() -> str:
    """Image that runs the pipeline."""
    return containers.build("cpu")


@pytest.fixture(scope="session")
def serve() -> str:
    """Image that only translates."""
    return containers.build("serve")


@pytest.fixture(scope="module")
def home() -> Iterator[str]:
    """A volume for NMT_HOME."""
    name = f"nmt-home-{secrets.token_hex(4)}"
    containers.podman("volume", "create", name)
    yield name
    containers.run("podman", "volume", "rm", "--force", name)
