"""The command of one node of a cluster."""

from pathlib import Path

import pytest
import torch
from support.facts import missing

from nmt_core.execution.torchrun import CONFIG, Rendezvous, torchrun_command
from nmt_core.train import node
from nmt_core.train.status import read_status


def arguments(folder: Path, processes: str, nodes: str = "1", endpoint: str = "127.0.0.1:0") -> list[str]:
    return torchrun_command(folder, Rendezvous(nodes, processes, endpoint, "job", "127.0.0.1"))[3:]


def test_a_node_without_a_gpu_names_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (tmp_path / CONFIG).touch()
    assert node.main(arguments(tmp_path, "gpu")) == 1
    status = read_status(tmp_path)
    assert status and status.state == "failed"
    assert missing(status.error, "NMT_PROCESSES is not set", "GPU", r"on node \S+", "set NMT_PROCESSES") == []
    assert capsys.readouterr().out == status.error + "\n"


@pytest.mark.parametrize(
    ("place", "option"),
    [
        ("", "read_timeout=600"),
        ("0", "read_timeout=600,is_host=true"),
        ("1", "read_timeout=600,is_host=false"),
    ],
)
def test_a_node_that_cannot_meet_the_others_says_where(
    place: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from torch.distributed.elastic.rendezvous.api import RendezvousConnectionError

    def refuse(given: list[str]) -> None:
        assert given == ["--rdzv-conf", option, *arguments(tmp_path, "1", "2", "first.example:29500")]
        raise RendezvousConnectionError("The connection has failed.") from TimeoutError("timed out after 60000ms")

    monkeypatch.setattr(node, "torchrun", refuse)
    monkeypatch.delenv("SLURM_NODEID", raising=False)
    if place:
        monkeypatch.setenv("SLURM_NODEID", place)
    assert node.main(arguments(tmp_path, "1", "2", "first.example:29500")) == 1
    printed = capsys.readouterr().out
    assert (
        missing(
            printed,
            r"node \S+ cannot reach the first node",
            "first.example:29500",
            "timed out after 60000ms",
            "resolves",
        )
        == []
    )
    assert read_status(tmp_path) is None, "the others may have met"
