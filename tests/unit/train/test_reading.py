"""Each Python reads the checkpoints of every other.

A checkpoint with foreign code is refused before it runs anything.
"""

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint import metadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from nmt_core.errors import DataError
from nmt_core.train.reading import index_of, read_checkpoint

GOLDEN = Path(__file__).parents[2] / "golden" / "checkpoints"
"""Checkpoints of `VALUES`, each written by the Python in its name. `make.py` in that folder writes them."""

VALUES: dict[str, Any] = {
    "model": {"weight": torch.arange(6.0).reshape(2, 3), "ids": torch.arange(3), "bf16": torch.ones(2).bfloat16()},
    "optimizer": {"param_groups": {"lr": 0.1, "betas": (0.9, 0.98), "fused": None, "names": ["a", "b"], "flag": True}},
    "progress": "{}",
}


class Planted:
    """Object that makes a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._file),)


def empty() -> dict[str, Any]:
    """Return values to load into."""
    model = {name: torch.zeros_like(value) for name, value in VALUES["model"].items()}
    groups = dict.fromkeys(VALUES["optimizer"]["param_groups"], 0)
    return {"model": model, "optimizer": {"param_groups": groups}, "progress": ""}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    save(VALUES, checkpoint_id=tmp_path / "1")
    return tmp_path / "1"


def test_what_was_saved_is_read(checkpoint: Path) -> None:
    state = empty()
    read_checkpoint(state, checkpoint)
    assert all(torch.equal(state["model"][name], value) for name, value in VALUES["model"].items())
    assert state["model"]["bf16"].dtype == torch.bfloat16
    assert (state["optimizer"], state["progress"]) == (VALUES["optimizer"], VALUES["progress"])


@pytest.mark.parametrize("written", sorted(GOLDEN.glob("python-*")), ids=lambda path: path.name)
def test_what_any_python_has_written_is_read_by_this_one(written: Path) -> None:
    state = empty()
    read_checkpoint(state, written)
    assert all(torch.equal(state["model"][name], value) for name, value in VALUES["model"].items())
    assert (state["optimizer"], state["progress"]) == (VALUES["optimizer"], VALUES["progress"])


def test_the_pythons_that_are_known_pickle_an_enum_in_two_ways() -> None:
    indexes = [(folder / ".metadata").read_bytes() for folder in GOLDEN.glob("python-*")]
    assert {b"getattr" in index for index in indexes} == {False, True}


class Reaching:
    """Object that is pickled as Python 3.11.2 pickles an enum, with other arguments."""

    def __init__(self, *arguments: Any) -> None:
        self._arguments = arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, self._arguments


@pytest.mark.parametrize(
    "arguments",
    [
        (metadata.Metadata, "__subclasses__"),
        (metadata._MEM_FORMAT_ENCODING, "__class__"),
        (metadata._MEM_FORMAT_ENCODING, "mro"),
        (torch.float32, "__reduce__"),
        (torch.Size, "__mro__"),
    ],
    ids=lambda arguments: ".".join(getattr(each, "__name__", str(each)) for each in arguments),
)
def test_an_index_cannot_reach_attributes_but_members_of_its_enums(checkpoint: Path, arguments: Any) -> None:
    index = pickle.loads((checkpoint / ".metadata").read_bytes())
    index.planner_data = Reaching(*arguments)
    (checkpoint / ".metadata").write_bytes(pickle.dumps(index))
    assert pickle.loads((checkpoint / ".metadata").read_bytes()).planner_data == getattr(*arguments), "it is reached"
    with pytest.raises(DataError, match=rf"its index gets the attribute '{arguments[1]}' of .*, and is refused"):
        read_checkpoint(empty(), checkpoint)


def test_an_index_that_asks_for_getattr_itself_does_not_get_it(checkpoint: Path) -> None:
    index = pickle.loads((checkpoint / ".metadata").read_bytes())
    index.planner_data = getattr
    (checkpoint / ".metadata").write_bytes(pickle.dumps(index))
    with pytest.raises(Exception, match="which is not part of an index"):
        index_of(checkpoint).planner_data(os, "mkdir")


def test_an_index_that_names_code_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    """PyTorch's own reader would have run the code."""
    index = pickle.loads((checkpoint / ".metadata").read_bytes())
    index.planner_data = Planted(tmp_path / "pwned")
    (checkpoint / ".metadata").write_bytes(pickle.dumps(index))
    with pytest.raises(
        DataError, match=rf"{checkpoint}: its index names (posix|nt)\.mkdir, .*is refused because it could run code"
    ):
        read_checkpoint(empty(), checkpoint)
    assert not (tmp_path / "pwned").exists()
    load(empty(), checkpoint_id=checkpoint)
    assert (tmp_path / "pwned").exists(), "what is planted here works"


def test_a_value_that_names_code_is_refused(tmp_path: Path) -> None:
    planted = VALUES | {"progress": Planted(tmp_path / "pwned")}
    save(planted, checkpoint_id=tmp_path / "1")
    with pytest.raises(
        DataError, match="its value progress is more than text and numbers, and is refused because it could run code"
    ):
        read_checkpoint(empty(), tmp_path / "1")
    assert not (tmp_path / "pwned").exists()
