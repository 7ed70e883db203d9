"""Checkpoints that are torn or do not fit on the disk, and shards that are damaged: training uses none of them."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nmt_core.batches.plan import Plan
from nmt_core.batches.shards import ShardWriter, TokenShards
from nmt_core.errors import DataError
from nmt_core.store.artifacts import Artifact
from nmt_core.train.launch import METRICS

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]
Curve = Callable[[Path], list[dict[str, float]]]
Maker = Callable[..., Any]

UPDATES, EVERY = 70, 20
# Checkpoints of 32 MB, of which the weights apart are 8: writing one takes long enough to be killed in the middle.
LARGE = {"d_model": 256, "d_ff": 1_024, "encoder_layers": 1, "decoder_layers": 1}
TRAIN = {
    "max_updates": UPDATES,
    "checkpoint_every": EVERY,
    "max_tokens": 128,
    "micro_batch_tokens": 128,
    "validate_every": 2,
}
PAIRS_OF_A_GROUP = 10


@pytest.fixture(scope="module")
def undisturbed(training: Maker) -> Path:
    artifact: Path = training(TRAIN, LARGE).run(processes=1)
    return artifact


def final_weights(folder: Path) -> bytes:
    return (folder / "weights" / f"{UPDATES:09d}.safetensors").read_bytes()


def torn(job: Any) -> list[Path]:
    """Return the folders of checkpoints that are being written and are not empty."""
    folders = job.made.glob("checkpoints/*")
    return [folder for folder in folders if list(folder.glob("*.distcp")) and not (folder / ".metadata").exists()]


def kill_while_it_saves(job: Any) -> int:
    """Kill a training while it writes its next checkpoint, and return the update of that checkpoint."""
    job.wait_for(lambda: torn(job))
    job.freeze()
    (half,) = torn(job)
    job.kill_all()
    return int(half.name)


@pytest.mark.cpu(30)
def test_a_checkpoint_that_is_killed_half_way_is_not_used(training: Maker, undisturbed: Path, curve: Curve) -> None:
    """A regular checkpoint is torn, and one that is written after SIGTERM, as Slurm sends it."""
    job = training(TRAIN, LARGE)
    kept = []
    for newest in (EVERY, 2 * EVERY):
        job.start(processes=1)
        job.wait_for(
            lambda newest=newest: job.newest_complete() == newest
        )  # before that, the curves belong to a dead process
        job.wait_for_update(newest + 3)
        if newest > EVERY:
            for process in (*job.agents(), *job.ranks()):
                process.send_signal(signal.SIGTERM)
        half = kill_while_it_saves(job)
        assert half > newest
        assert bool(half % EVERY) == (newest > EVERY)
        assert job.newest_complete() == newest
        kept.append(job.kept())

    artifact = job.run(processes=1)
    assert all(map((artifact / METRICS).read_bytes().startswith, kept)), "it did not resume from a checkpoint"
    assert curve(artifact) == curve(undisturbed)
    assert final_weights(artifact) == final_weights(undisturbed)
    for kind in ("checkpoints", "weights"):
        names = [sorted(path.name for path in (folder / kind).iterdir()) for folder in (artifact, undisturbed)]
        assert names[0] == names[1], "the torn ones are gone"


@pytest.fixture
def on_a_disk_of(training: Maker, own_mounts: list[str], tmp_path: Path) -> Maker:
    """Make jobs whose artifacts are on a separate disk. The folder on it cannot be seen from outside."""

    def make(size: str) -> Any:
        job = training(TRAIN, LARGE)
        (job.folder / "store").mkdir()
        mount = f'mount -t tmpfs -o size={size} tmpfs {job.folder}/store && "$@"; c=$?; cp -r {job.folder}/store/. '
        # What there is on the disk is copied out at the end, so that the test can look at it.
        job.within = [*own_mounts, "sh", "-c", f"{mount} {tmp_path}; exit $c", "sh"]
        return job

    return make


@pytest.mark.cpu(20)
def test_a_disk_that_fills_in_mid_training_costs_no_update(
    on_a_disk_of: Maker, undisturbed: Path, curve: Curve, tmp_path: Path
) -> None:
    """The weights still fit.

    The files written in the background do not: the disk is full to the last byte, while the curves are still written,
    until the next checkpoint is due. Then there is space again.
    """
    job = on_a_disk_of("200m")
    job.start(processes=1)
    job.wait_for_update(EVERY + 1)
    ballast = job.made.parent / "ballast"
    free = os.statvfs(job.made)
    leave = 15 << 20
    ballast.write_bytes(bytes(free.f_bavail * free.f_frsize - leave))
    job.wait_for(lambda: "could not be written" in job.log)
    ballast.unlink()
    assert job.wait() == 0, job.log
    assert "Traceback" not in job.log, "training only continued because it was started again"
    warning = next(line for line in job.log.splitlines() if "could not be written" in line)
    assert f"checkpoint {2 * EVERY} could not be written" in warning
    assert f"training continues, and its newest complete checkpoint is at update {EVERY}" in warning
    (artifact,) = (path for path in tmp_path.glob("train/*") if path.is_dir())
    assert curve(artifact) == curve(undisturbed)
    assert final_weights(artifact) == final_weights(undisturbed)


@pytest.mark.cpu(12)
def test_a_disk_without_room_for_any_checkpoint_ends_training_at_once(on_a_disk_of: Maker) -> None:
    job = on_a_disk_of("8m")
    job.start(processes=1)
    assert job.wait() == 1
    said = job.log.splitlines()[-1]
    assert said.startswith("StageError: ")
    assert str(job.folder / "store" / "train") in said
    assert "free space" in said
    assert "run the same command again" in said
    assert job.log.count("failed (exitcode") == 1, "a retry cannot help"
    assert "Traceback" not in said


@pytest.fixture
def many_groups(tiny: dict[str, Artifact], tmp_path: Path) -> Artifact:
    """The pairs of the tiny corpus, in row groups so small that an epoch reads them in more than one window."""
    folder = tmp_path / "encode"
    shutil.copytree(tiny["encode"].path, folder)
    (file,) = folder.glob("train-*.parquet")
    table = pq.read_table(file)
    types = [table.schema.field(side).type.value_type for side in ("source", "target")]
    metadata = {key.decode(): value.decode() for key, value in table.schema.metadata.items() if key != b"ARROW:schema"}
    metadata.pop("row_groups", None)
    with ShardWriter(file, types, metadata) as writer:
        for start in range(0, len(table), PAIRS_OF_A_GROUP):
            columns = {name: _whole(table[name].slice(start, PAIRS_OF_A_GROUP)) for name in table.column_names}
            writer.write([columns["source"], columns["target"]], columns["corpus"], columns["line"])
    return Artifact("encode", tiny["encode"].fingerprint, folder)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def first_use(shards: TokenShards, options: Any) -> tuple[int, int]:
    """Return a row group that training reads only in the second window, and the number of updates before."""
    plan = Plan(
        shards,
        options.batching,
        micro_batch_tokens=options.micro_batch_tokens,
        max_tokens=options.max_tokens,
        seed=options.seed,
    )
    seen: set[int] = set()
    for number, update in enumerate(plan.updates(0)):
        groups = {group for each in update for group in each.block.groups}
        if number > 20 and (new := groups - seen):
            return min(new), number
        seen |= groups
    raise AssertionError("an epoch has one window only")


def flip_a_byte(file: Path, number: int) -> str:
    """Change one byte of a row group so that it can still be read, and return the message that reading it gives."""
    column = next(
        column
        for index in range(100)
        if (column := pq.read_metadata(file).row_group(number).column(index)).path_in_schema.startswith("source.")
    )
    whole = file.read_bytes()
    for place in np.random.default_rng(1).permutation(column.total_compressed_size):
        damaged = bytearray(whole)
        damaged[column.data_page_offset + int(place)] ^= 1
        file.write_bytes(damaged)
        try:
            TokenShards([file]).read([number])
        except DataError as error:
            if "hash should be" in str(error):
                return str(error)
    raise AssertionError("no byte can be flipped without notice of Parquet itself")


@pytest.mark.cpu(12)
def test_a_damaged_row_group_is_named_and_not_trained_on(training: Maker, many_groups: Artifact, curve: Curve) -> None:
    job = training(TRAIN | {"max_updates": 1_000, "validate_every": 1}, {}, encode=many_groups)
    (file,) = many_groups.path.glob("train-*.parquet")
    number, before = first_use(TokenShards([file]), job.config.train)
    expected = flip_a_byte(file, number)
    job.start(processes=1)
    assert job.wait() == 1
    said = job.log.splitlines()[-1]
    assert said == f"StageError: train: {expected}"
    assert f"{file}, row group {number}: " in said
    assert "its hash should be" in said
    assert [point["update"] for point in curve(job.made) if "dev_loss" in point] == list(range(1, before + 1))
    assert job.newest_complete() <= before
    assert job.log.count("failed (exitcode") == 1, "a retry cannot help"
