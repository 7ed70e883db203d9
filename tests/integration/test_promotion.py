"""The life of a champion on a real registry: registered, replaced, rolled back, kept out, and promoted by hand."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.forked import start
from support.until import patient

from flows.promotion import promote, rollback
from nmt_core.errors import ModelError


def champion(registry: Any) -> str:
    return str(registry.client.get_model_version_by_alias("test", "champion").version)


@pytest.fixture
def nmt(registry: Any, zygote: Any) -> Callable[..., str]:
    """Return a function that runs a command in that home, and returns its output."""

    def run(*arguments: str, code: int = 0) -> str:
        prefixes = ("NMT_", "PREFECT_", "MLFLOW_")
        own = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
        options = {"cwd": registry.home, "env": own | {"NMT_HOME": str(registry.home)}}
        with start(zygote, arguments, **options, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            out, error = process.communicate(timeout=patient(120))
        assert process.returncode == code, error
        return out + error

    return run


@pytest.fixture
def home(registry: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Home in which flows find the registry."""
    monkeypatch.setenv("NMT_HOME", str(registry.home))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    found: Path = registry.home
    return found


@pytest.mark.slow
@pytest.mark.cpu(25)
def test_a_champion_is_replaced_rolled_back_kept_out_and_promoted_by_hand(
    registry: Any, home: Path, tiny_bundle: Path, other_bundle: Path, prefect_api: str, nmt: Any
) -> None:
    config = registry.config()
    split = registry.split(news=registry.references(other_bundle))
    first = registry.register(registry.candidate(config, tiny_bundle, split), config)
    assert first.verdict.startswith("the first champion") and champion(registry) == "1"
    better = registry.candidate(config, other_bundle, split)
    assert registry.register(better, config).verdict.startswith("replaces version 1: chrF of news is 100.00")
    assert champion(registry) == "2"

    assert rollback("test", why="it swears") == "test version 1 is champion again, in place of version 2"
    assert champion(registry) == "1"
    again = registry.register(better, config)
    assert (again.version, again.aliases, champion(registry)) == ("2", ["challenger"], "1")
    assert "the gate never promotes it again" in again.verdict

    with pytest.raises(ModelError, match=r"rolled back on .*\(it swears\): add --force"):
        promote("test", "2", "it is fixed")
    assert champion(registry) == "1"
    assert promote("test", "2", "it is fixed", force=True).endswith("in place of version 1")
    assert champion(registry) == "2"

    text = nmt("models", "test")
    assert re.search(
        r"version 2 \(challenger, champion\), BLEU [\d.]+: stays challenger: version 2, which is the", text
    )
    changes = [line.split(",")[0].split(" ", 4)[4] for line in text.split("Changes of the champion:\n")[1].splitlines()]
    assert changes == [
        "promoted: version 1",
        "promoted: version 1 -> 2",
        "rolled back: version 2 -> 1",
        "promoted: version 1 -> 2",
    ]
    assert ", by gate (" in text and ": it is fixed\n" in text
    same_from_the_command_line(registry, nmt)


def same_from_the_command_line(registry: Any, nmt: Callable[..., str]) -> None:
    assert nmt("models") == f"{'test':<30} champion: version 2\n"
    nmt("rollback", "test", code=2)
    assert "test version 1 is champion again" in nmt("rollback", "test", "--why", "users do not like it")
    assert champion(registry) == "1"
    assert "rolled back on" in nmt("promote", "test", "--why", "they do", code=1)
    assert "champion now" in nmt("promote", "models:/test/2", "--why", "they do", "--force")
    assert champion(registry) == "2"
