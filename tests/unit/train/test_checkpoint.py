"""Checkpoints hold all that training needs. The newest complete one is loaded, and old ones are removed."""

import hashlib
import math
import os
import pickle
import random
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import safetensors.torch
import torch
from support import facts
from torch import Tensor
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from nmt_core.config import ModelConfig, TrainConfig
from nmt_core.errors import StageError
from nmt_core.models.transformer import Transformer
from nmt_core.train import reading
from nmt_core.train.checkpoint import Checkpoints, Training
from nmt_core.train.checkpoint_folder import CheckpointFolder, DamagedError
from nmt_core.train.checksums import versions
from nmt_core.train.distributed import World
from nmt_core.train.moving_average import MovingAverage
from nmt_core.train.optimizer import make_optimizer
from nmt_core.train.parallel import Parallel
from nmt_core.train.progress import Progress
from nmt_core.train.watchdog import LossWindow


class Moved:
    """Model and its optimizer, moved a few steps from where they began."""

    def __init__(self, seed: int, steps: int) -> None:
        torch.manual_seed(seed)
        self.model = Transformer(ModelConfig(d_model=8, d_ff=8, num_heads=2, encoder_layers=1, decoder_layers=1), 20)
        self.parallel = Parallel(self.model, TrainConfig(), World(0, 1, torch.device("cpu")))
        self.optimizer = make_optimizer(self.model, TrainConfig())
        self.average = MovingAverage(self.parallel.parameters(), 0.9)
        self.training = Training(self.parallel, self.optimizer, self.average)
        self.optimizer.param_groups[0]["lr"] = 0.01
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        ids = torch.arange(4, 10)[None]
        self.model.eval()(ids, ids).square().mul(torch.arange(8.0)).sum().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.average.update(1_000)

    def weights(self) -> list[Tensor]:
        return [parameter.detach().clone() for parameter in self.model.parameters()]


def equal(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_training_resumes_as_if_it_had_not_stopped(tmp_path: Path, world: World) -> None:
    checkpoints, training = Checkpoints(tmp_path, 2, world, print), Moved(seed=1, steps=3)
    progress = Progress(update=3, epoch=1, batch=2, best_dev_loss=4.5, losses=LossWindow(7, 2.5, 0.25), rollbacks=1)
    checkpoints.save(training.training, progress, with_weights=True)
    checkpoints.wait()
    other = Moved(seed=2, steps=0)
    assert not equal(other.weights(), training.weights())
    assert Checkpoints(tmp_path, 2, world, print).load_newest(other.training) == progress
    assert equal(other.weights(), training.weights())
    for each in (training, other):
        each.optimizer.param_groups[0]["lr"] = 0.01
        each.step()
    assert equal(other.weights(), training.weights()), "Adam's moments and step count must come back too"
    assert other.model.source_embedding.weight is other.model.output.weight
    averages = [list(each.average.tensors.values()) for each in (training, other)]
    assert equal(*averages)
    assert not equal(averages[0], training.weights())


def test_what_is_saved_is_what_was_there_when_it_was_asked_for(tmp_path: Path, world: World) -> None:
    """Training continues while a checkpoint is being written."""
    checkpoints, training = Checkpoints(tmp_path, 2, world, print), Moved(seed=1, steps=1)
    before = training.weights()
    progress = Progress(update=1)
    checkpoints.save(training.training, progress, with_weights=True)
    progress.update = 99
    for _ in range(5):
        training.step()
    checkpoints.wait()
    other = Moved(seed=2, steps=0)
    assert Checkpoints(tmp_path, 2, world, print).load_newest(other.training).update == 1
    assert equal(other.weights(), before)
    file = safetensors.torch.load_file(tmp_path / "weights" / "000000001.safetensors")
    assert torch.equal(file["target_embedding.weight"], before[0])
    average = safetensors.torch.load_file(tmp_path / "weights" / "000000001.ema.safetensors")
    assert average.keys() == file.keys()
    assert not torch.equal(average["target_embedding.weight"], before[0])


def test_without_a_checkpoint_nothing_changes(tmp_path: Path, world: World) -> None:
    training = Moved(seed=1, steps=1)
    before = training.weights()
    assert Checkpoints(tmp_path, 2, world, print).load_newest(training.training) == Progress()
    assert equal(training.weights(), before)


def test_old_checkpoints_go(tmp_path: Path, world: World) -> None:
    checkpoints, training = Checkpoints(tmp_path, 3, world, print), Moved(seed=1, steps=1)
    for update in range(10, 60, 10):
        checkpoints.save(training.training, Progress(update=update), with_weights=True)
        assert len(list(tmp_path.glob("checkpoints/*"))) <= 3
    checkpoints.wait()
    assert [path.name for path in checkpoints.complete()] == ["000000040", "000000050"]
    weights = sorted(file.name for file in (tmp_path / "weights").iterdir())
    assert weights == [
        *(f"0000000{update}.safetensors" for update in (30, 40)),
        "000000050.ema.safetensors",
        "000000050.safetensors",
    ]
    checkpoints.finish(50)
    assert [path.name for path in checkpoints.complete()] == ["000000050"]


@pytest.mark.parametrize("torn", ["without .metadata", "empty folder"])
def test_a_torn_checkpoint_is_passed_over(tmp_path: Path, world: World, torn: str) -> None:
    checkpoints, training = Checkpoints(tmp_path, 2, world, print), Moved(seed=1, steps=1)
    checkpoints.save(training.training, Progress(update=10), with_weights=True)
    whole = training.weights()
    training.step()
    checkpoints.save(training.training, Progress(update=20), with_weights=True)
    checkpoints.wait()
    for file in (tmp_path / "checkpoints" / "000000020").iterdir():
        if torn == "empty folder" or file.name == ".metadata":
            file.unlink()
    other = Moved(seed=2, steps=0)
    again = Checkpoints(tmp_path, 2, world, print)
    assert again.load_newest(other.training).update == 10
    assert equal(other.weights(), whole)
    again.save(other.training, Progress(update=30), with_weights=True)
    again.wait()
    assert [path.name for path in again.complete()] == ["000000010", "000000030"]
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["000000010", "000000030"]


def cut_off(checkpoint: Path) -> None:
    (file,) = checkpoint.glob("*.distcp")
    file.write_bytes(file.read_bytes()[:-100])


def take_away(checkpoint: Path) -> None:
    (file,) = checkpoint.glob("*.distcp")
    file.unlink()


def scramble(checkpoint: Path) -> None:
    (file,) = checkpoint.glob("*.distcp")
    file.write_bytes(bytes(file.stat().st_size))


def cut_off_its_index(checkpoint: Path) -> None:
    file = checkpoint / ".metadata"
    file.write_bytes(file.read_bytes()[:-100])


class Planted:
    """Object that ends a process that unpickles it without checking its name."""

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return os.abort, ()


def plant_code(checkpoint: Path) -> None:
    file = checkpoint / ".metadata"
    index = pickle.loads(file.read_bytes())
    index.planner_data = Planted()
    file.write_bytes(pickle.dumps(index))


def flip(file: Path, offset: int) -> None:
    content = bytearray(file.read_bytes())
    content[offset] ^= 1
    file.write_bytes(content)


def flip_a_bit(checkpoint: Path) -> None:
    (file,) = checkpoint.glob("*.distcp")
    flip(file, file.stat().st_size // 2)


def flip_a_bit_of_its_index(checkpoint: Path) -> None:
    """The update is in the name of the folder. Nothing else shows it."""
    file = checkpoint / ".metadata"
    flip(file, file.read_bytes().index(checkpoint.name.encode()) + len(checkpoint.name) - 1)


DAMAGES = [cut_off, take_away, scramble, cut_off_its_index, plant_code, flip_a_bit, flip_a_bit_of_its_index]


@pytest.mark.parametrize("damage", DAMAGES)
def test_in_place_of_a_damaged_checkpoint_the_one_before_is_used(
    tmp_path: Path, world: World, damage: Callable[[Path], None]
) -> None:
    """Its `.metadata` says that it is complete, which it was. Then the disk lost a part of it."""
    warnings: list[str] = []
    checkpoints, training = Checkpoints(tmp_path, 2, world, print), Moved(seed=1, steps=1)
    checkpoints.save(training.training, Progress(update=10), with_weights=True)
    whole = training.weights()
    training.step()
    checkpoints.save(training.training, Progress(update=20), with_weights=True)
    checkpoints.wait()
    damage(tmp_path / "checkpoints" / "000000020")
    other = Moved(seed=2, steps=0)
    again = Checkpoints(tmp_path, 2, world, warnings.append)
    assert again.load_newest(other.training).update == 10
    assert equal(other.weights(), whole)
    (message,) = warnings
    assert message.startswith("checkpoint 20 cannot be read (")
    assert message.endswith("10 is used")
    assert len(message) < 1_000
    assert again.newest == 10
    again.save(other.training, Progress(update=30), with_weights=True)
    again.wait()
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["000000010", "000000030"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_if_no_checkpoint_can_be_read_nothing_is_touched(
    tmp_path: Path, world: World, damage: Callable[[Path], None]
) -> None:
    checkpoints, training = Checkpoints(tmp_path, 2, world, print), Moved(seed=1, steps=1)
    for update in (10, 20):
        checkpoints.save(training.training, Progress(update=update), with_weights=True)
    checkpoints.wait()
    for name in ("000000010", "000000020"):
        damage(tmp_path / "checkpoints" / name)
    remedies = ("restore", "use the Python and PyTorch that wrote", "move the folder")
    with facts.raises(StageError, f"{tmp_path}/checkpoints", r"Python 3\.\d+", r"PyTorch \d", *remedies):
        Checkpoints(tmp_path, 2, world, print).load_newest(Moved(seed=2, steps=0).training)
    assert len(checkpoints.complete()) == 2


def two_checkpoints(folder: Path, world: World) -> tuple[Path, list[list[Tensor]]]:
    """Save two checkpoints, of the updates 10 and 20. Return the folder of the newest, and the weights of both."""
    checkpoints, training, weights = Checkpoints(folder, 2, world, print), Moved(seed=1, steps=1), []
    for update in (10, 20):
        checkpoints.save(training.training, Progress(update=update), with_weights=False)
        weights.append(training.weights())
        training.step()
    checkpoints.wait()
    return folder / "checkpoints" / "000000020", weights


def test_a_weight_that_changed_on_the_disk_is_not_trained_on(tmp_path: Path, world: World) -> None:
    """PyTorch itself loads the file without a message."""
    newest, (before, last) = two_checkpoints(tmp_path, world)
    (file,) = newest.glob("*.distcp")
    expected, found = ({"model": Moved(seed=2, steps=0).training.state()["model"]} for _ in range(2))
    load(expected, checkpoint_id=newest)
    weight = next(weight for weight in reversed(last) if weight.dim() == 2)  # not a tied one, which is loaded twice
    flip(file, file.read_bytes().index(weight.numpy().tobytes()))
    load(found, checkpoint_id=newest)
    assert sum(not torch.equal(found["model"][name], expected["model"][name]) for name in expected["model"]) == 1
    warnings: list[str] = []
    other = Moved(seed=2, steps=0)
    assert Checkpoints(tmp_path, 2, world, warnings.append).load_newest(other.training).update == 10
    assert equal(other.weights(), before)
    assert warnings == [f"checkpoint 20 cannot be read ({file} differs from its checksum): 10 is used"]


def test_no_byte_of_a_checkpoint_can_change_unseen(tmp_path: Path, world: World) -> None:
    """The changed byte is neither in the padding nor in the checksum itself."""
    newest, _ = two_checkpoints(tmp_path, world)
    folder = CheckpointFolder(newest.parent, world)
    folder.require_all(newest)
    for file in newest.iterdir():
        content = file.read_bytes()
        few = random.Random(1).sample(range(len(content)), 300)
        last_line = range(len(content) - 120, len(content))
        for offset in (0, *few, *last_line):
            flip(file, offset)
            with pytest.raises(DamagedError):
                folder.require_all(newest)
            file.write_bytes(content)
    folder.require_all(newest)


def test_a_checkpoint_without_checksums_is_read(tmp_path: Path, world: World) -> None:
    """PyTorch writes checkpoints like this one, and earlier versions of this project did."""
    training = Moved(seed=1, steps=1)
    state = training.training.state() | {"progress": Progress(update=7).to_json()}
    save(state, checkpoint_id=tmp_path / "checkpoints" / "000000007")
    other = Moved(seed=2, steps=0)
    assert Checkpoints(tmp_path, 2, world, print).load_newest(other.training).update == 7
    assert equal(other.weights(), training.weights())


def test_pytorch_reads_a_checkpoint_with_checksums(tmp_path: Path, world: World) -> None:
    newest, (_, last) = two_checkpoints(tmp_path, world)
    state = Moved(seed=2, steps=0).training.state() | {"progress": ""}
    load(state, checkpoint_id=newest)
    assert torch.equal(state["model"]["target_embedding.weight"], last[0])
    for file in newest.iterdir():
        content, _, sha256 = file.read_bytes().rstrip(b"\n").rpartition(b" ")
        assert hashlib.sha256(content + b" ").hexdigest() == sha256.decode()


def sign(file: Path, versions: str) -> None:
    """Append a checksum of another version to a file."""
    content = file.read_bytes() + f"\n{versions} sha256 ".encode()
    file.write_bytes(content + hashlib.sha256(content).hexdigest().encode() + b"\n")


def test_a_checkpoint_of_other_versions_is_not_given_up(tmp_path: Path, world: World) -> None:
    """Other versions can read it, so that this program must neither skip it nor advise removing it."""
    newest, _ = two_checkpoints(tmp_path, world)
    plant_code(newest)
    sign(newest / ".metadata", "Python 3.99.1 and PyTorch 9.9.0")
    again = Checkpoints(tmp_path, 2, world, print)
    with pytest.raises(StageError) as caught:
        again.load_newest(Moved(seed=2, steps=0).training)
    message = str(caught.value)
    assert message.startswith("checkpoint 20 was written by Python 3.99.1 and PyTorch 9.9.0, and ")
    assert f"{versions()} cannot read it ({newest}/.metadata cannot be read (its index names posix.abort" in message
    assert message.endswith(
        f": run the same command with the versions that wrote it, or move {newest} elsewhere to resume without it"
    )
    newest.rename(tmp_path / "elsewhere")
    assert again.load_newest(Moved(seed=2, steps=0).training).update == 10


def test_one_of_other_versions_that_is_damaged_is_passed_over(tmp_path: Path, world: World) -> None:
    newest, _ = two_checkpoints(tmp_path, world)
    plant_code(newest)
    sign(newest / ".metadata", "Python 3.99.1 and PyTorch 9.9.0")
    flip(newest / ".metadata", 100)
    assert Checkpoints(tmp_path, 2, world, print).load_newest(Moved(seed=2, steps=0).training).update == 10


def test_the_first_checkpoint_is_read_back_and_changes_nothing(tmp_path: Path, world: World) -> None:
    training = Moved(seed=1, steps=3)
    undisturbed = Moved(seed=1, steps=3)
    checkpoints = Checkpoints(tmp_path, 2, world, print)
    checkpoints.save_first(training.training, Progress())
    assert checkpoints.newest == 0
    for each in (training, undisturbed):
        each.step()
    assert equal(training.weights(), undisturbed.weights())


def test_a_first_checkpoint_that_cannot_be_read_ends_training_at_once(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.11.2 wrote such pickles: an index with an unknown name. It was read only when a training was resumed."""
    monkeypatch.setattr(reading, "_ALLOWED", {})
    with pytest.raises(StageError) as caught:
        Checkpoints(tmp_path, 2, world, print).save_first(Moved(seed=1, steps=1).training, Progress())
    message = str(caught.value)
    assert f"{tmp_path}/checkpoints/000000000: {versions()} cannot read the first checkpoint back" in message
    assert "its index names torch.distributed.checkpoint.metadata.Metadata" in message
    assert "recreate the environment with Python 3.11, 3.12 or 3.13 and PyTorch 2.13" in message
    monkeypatch.undo()
    checkpoints = Checkpoints(tmp_path, 2, world, print)
    assert checkpoints.newest == -1, "another Python begins where nothing has been learnt"
    checkpoints.save_first(Moved(seed=1, steps=1).training, Progress())
    assert checkpoints.newest == 0


def test_moments_of_a_damaged_checkpoint_are_not_taken_over(tmp_path: Path, world: World) -> None:
    newest, _ = two_checkpoints(tmp_path, world)
    flip_a_bit(newest)
    checkpoints = Checkpoints(tmp_path / "other", 2, world, print)
    with pytest.raises(StageError) as caught:
        checkpoints.take_over_moments(Moved(seed=2, steps=1).training, newest)
    message = str(caught.value)
    assert f"train.start_optimizer=kept: the checkpoint {newest} cannot be read by {versions()}" in message
    assert "differs from its checksum" in message
    assert message.endswith("or set train.start_optimizer to fresh")


def test_the_newest_checkpoint_may_be_given_up_with_its_weights(tmp_path: Path, world: World) -> None:
    checkpoints, training = Checkpoints(tmp_path, 2, world, print), Moved(seed=1, steps=1)
    for update in (10, 20):
        checkpoints.save(training.training, Progress(update=update), with_weights=True)
    checkpoints.wait()
    checkpoints.discard_newest()
    assert checkpoints.newest == 10
    assert {file.name.partition(".")[0] for file in (tmp_path / "weights").iterdir()} == {"000000010"}
    assert checkpoints.load_newest(training.training).update == 10
    checkpoints.discard_newest()
    assert checkpoints.newest == 10, "the only one stays"


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The system refuses longer files in this process, as it does if the disk is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("bytes_at_most", [1_000, 6_000])
def test_a_full_disk_costs_a_checkpoint_and_no_training(tmp_path: Path, world: World, bytes_at_most: int) -> None:
    """Either the weights do not fit, or they do and the optimizer's state does not."""
    warnings: list[str] = []
    checkpoints, training = Checkpoints(tmp_path, 5, world, warnings.append), Moved(seed=1, steps=1)
    checkpoints.save(training.training, Progress(update=10), with_weights=True)
    checkpoints.wait()
    sizes = [file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()]
    assert max(sizes) > bytes_at_most
    with files_of_at_most(bytes_at_most):
        checkpoints.save(training.training, Progress(update=20), with_weights=True)
        checkpoints.wait()
    (message,) = warnings
    assert "checkpoint 20 could not be written" in message
    assert "File too large" in message
    assert "Traceback" not in message
    assert "its newest complete checkpoint is at update 10" in message
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["000000010"]
    assert {path.name.partition(".")[0] for path in (tmp_path / "weights").iterdir()} == {"000000010"}
    checkpoints.save(training.training, Progress(update=30), with_weights=True)
    checkpoints.wait()
    assert [path.name for path in checkpoints.complete()] == ["000000010", "000000030"]


def test_the_best_are_chosen_among_those_that_are_there(tmp_path: Path, world: World) -> None:
    """The best checkpoint finds no disk space. A new process saves each one. Of two equal ones the later is kept."""
    values = {10: 3.0, 20: 2.0, 30: 1.0, 40: 2.0, 50: 4.0, 60: 5.0, 70: 6.0}
    progress, training = Progress(), Moved(seed=1, steps=1).training
    kept: list[set[int]] = []
    for update, value in values.items():
        checkpoints = Checkpoints(tmp_path, 2, world, print, keep_best=2)
        progress = checkpoints.load_newest(training)
        progress.update = update
        progress.count_validation(value, remember=True)
        with files_of_at_most(1_000 if update == 30 else resource.RLIM_INFINITY):
            checkpoints.save(training, progress, with_weights=True)
            checkpoints.wait()
        kept.append({int(file.stem) for file in (tmp_path / "weights").iterdir() if file.stem.isdigit()})
    assert kept == [{10}, {10, 20}, {10, 20}, {20, 40}, {20, 40, 50}, {20, 40, 50, 60}, {20, 40, 60, 70}]
    finishing = Checkpoints(tmp_path, 2, world, print, keep_best=1)
    finishing.load_newest(training)
    finishing.finish(70)
    assert {int(file.stem) for file in (tmp_path / "weights").iterdir() if file.stem.isdigit()} == {40, 60, 70}


def test_a_loss_that_is_no_number_is_the_worst() -> None:
    progress = Progress()
    for update, value in enumerate((math.nan, 5.0, math.nan, 5.0, 4.0), start=1):
        progress.update = update
        progress.count_validation(value, remember=update < 4)
    assert (progress.best, progress.validations_since_best) == (4.0, 0)
    assert progress.scores == {"1": math.inf, "2": 5.0, "3": math.inf}
    assert Progress.from_json(progress.to_json()) == progress


def test_a_full_disk_ends_training_that_has_nothing_to_go_back_to(tmp_path: Path, world: World) -> None:
    checkpoints, training = Checkpoints(tmp_path, 5, world, print), Moved(seed=1, steps=1)
    with files_of_at_most(1_000), pytest.raises(StageError, match="none before it: free space"):
        checkpoints.save(training.training, Progress(update=10), with_weights=True)
        checkpoints.wait()
    assert not checkpoints.complete()


def test_a_checkpoint_that_a_stop_asked_for_leaves_no_weights_to_average(tmp_path: Path, world: World) -> None:
    checkpoints, training = Checkpoints(tmp_path, 2, world, print), Moved(seed=1, steps=1)
    checkpoints.save(training.training, Progress(update=10), with_weights=True)
    checkpoints.save(training.training, Progress(update=13), with_weights=False)
    checkpoints.wait()
    assert [path.name for path in checkpoints.complete()] == ["000000010", "000000013"]
    assert {file.name.partition(".")[0] for file in (tmp_path / "weights").iterdir()} == {"000000010"}


def test_training_does_not_end_without_its_last_checkpoint(tmp_path: Path, world: World) -> None:
    checkpoints, training = Checkpoints(tmp_path, 2, world, print), Moved(seed=1, steps=1)
    checkpoints.save(training.training, Progress(update=10), with_weights=True)
    checkpoints.wait()
    with files_of_at_most(1_000):
        checkpoints.save(training.training, Progress(update=20), with_weights=True)
    with pytest.raises(StageError, match="the last checkpoint, of update 20, could not be written"):
        checkpoints.finish(20)
