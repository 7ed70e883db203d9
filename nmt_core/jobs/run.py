"""A job from wherever an earlier attempt stopped to its end; any number of attempts may run at the same time."""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from nmt_core.errors import ArtifactError, ConfigError, DataError, ModelError, StageError, words_of
from nmt_core.execution.pool import InProcess, Workers
from nmt_core.jobs.chunk import Bundle, ChunkTask, load, translate_chunk
from nmt_core.jobs.claims import Claims
from nmt_core.jobs.folder import Done, JobFolder, Parts
from nmt_core.jobs.inputs import identity
from nmt_core.jobs.merge import merge, outputs_of, require_free_targets
from nmt_core.jobs.order import Asked, Begun, Order, Plan, differences, way_on
from nmt_core.jobs.pace import Pace, Progress, silence
from nmt_core.jobs.staging import stage
from nmt_core.jobs.writers import holds_scores
from nmt_core.stages.stage import is_full_disk
from nmt_core.store.storage import local_path

_PARTS_OF_A_LEASE = 20
_STORES = frozenset({"aiobotocore", "aiohttp", "azure", "botocore", "gcsfs", "google"})
"""Packages whose errors come from a store."""


@dataclass(frozen=True)
class Means:
    """Who does the job, and how. None of this changes the result."""

    bundle: str
    """Folder of the model, under a path that all workers reach."""
    threads: int = 1
    """CPU threads of each worker."""
    workers: Workers = field(default_factory=InProcess)
    claim_seconds: float = 60.0
    progress: Progress = silence


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended."""

    done: Done
    reused: bool
    """Whether the job was done before."""
    translated: int
    """Rows that this attempt has translated; others may have done the rest."""
    seconds: float


def run_job(asked: Asked, order: Order, folder: JobFolder, means: Means) -> Outcome:
    """Do what is left of a job. When it is done, its output is there and its chunks are gone.

    Args:
        asked: kept in the order, so that it is known again.
        order: what to do.
        folder: where the job is, or will be.
        means: who does it.

    Raises:
        ConfigError: the output has no room for what the search finds, or the model cannot be searched so.
        StageError: the folder holds another job that is not done, a disk is full, or a store fails.
        DataError: the text cannot be read, or the output not be written where it should be.
        ModelError: the model cannot be loaded, or has changed.
    """
    try:
        require_free_targets(order)
        attempt = _Attempt(asked, order, folder, means)
        done, reused = attempt.run()
        return Outcome(done, reused, attempt.translated, time.monotonic() - attempt.start)
    except Exception as error:
        if is_full_disk(error):
            problem = f"the disk of {folder.url} or of {order.target} is full: free space"
        elif isinstance(error, OSError) and error.filename:
            problem = f"{error.filename}: {error.strerror}: mend that"
        elif isinstance(error, OSError) or type(error).__module__.partition(".")[0] in _STORES:
            problem = f"a store fails ({words_of(error)}): see that {_places(order, folder)} can be reached"
        else:
            raise
        raise StageError(f"{problem}, then run the same command again ({_kept(folder, order)})") from None


def _places(order: Order, folder: JobFolder) -> str:
    """Of what a job reads and writes, for people."""
    places = dict.fromkeys([order.inputs[0].url, folder.url, order.target])
    return " and ".join(place for place in places if not local_path(place)) or " and ".join(places)


def _kept(folder: JobFolder, order: Order) -> str:
    with suppress(Exception):  # what is broken may be where they are
        return f"{len(folder.parts(order.fingerprint).translated()):,} chunks are done, and kept"
    return "what is done is kept"


class _Attempt:
    def __init__(self, asked: Asked, order: Order, folder: JobFolder, means: Means) -> None:
        self.asked = asked
        self.order = order
        self.fingerprint = order.fingerprint
        self.folder = folder
        self.parts: Parts = folder.parts(self.fingerprint)
        self.means = means
        self.claims = Claims(self.parts.claims, means.claim_seconds)
        self.number = 0
        """Of the job in its folder; not known yet."""
        self.start = time.monotonic()
        self.translated = 0

    def run(self) -> tuple[Done, bool]:
        if done := self._done_before():
            return done, True
        begun = self.folder.begin(self.asked, self.order)
        if done := self._done_before():  # others have ended it since: we have begun it again
            if begun.order == self.order:
                self.folder.withdraw(begun.number)
            return done, True
        self._refuse_another(begun)
        self.number = begun.number
        try:
            done = self._rest()
        except (ArtifactError, DataError, FileNotFoundError):
            done = self._done()
            if not done:
                raise
        self._clean_up()  # what we may have written too late included
        return done, False

    def _done_before(self) -> Done | None:
        """What came of the job, if its output is still there."""
        done = self._done()
        if not done or any(identity(output.url, output.name) != output for output in done.outputs):
            return None
        self._clean_up()  # what a kill in the last moment has left
        return done

    def _rest(self) -> Done:
        """Do what is left. Files may vanish meanwhile: whoever thought us dead has ended the job, and cleaned up."""
        plan = self._plan()
        if plan and self._translate(plan):
            return self._merge(plan)
        if done := self._done():
            return done
        raise ArtifactError(
            f"{self.parts.root}: files of the job are missing, and it is not done: remove the folder "
            f"{self.folder.url} to begin anew"
        )

    def _done(self) -> Done | None:
        """What came of the job, by whomever. Once it has begun, one with the same order that was done before is
        another.
        """
        done = self.folder.done()
        return done if done and done.fingerprint == self.fingerprint and done.number >= self.number else None

    def _plan(self) -> Plan | None:
        """The chunks, cut by us or by somebody else; None: others have ended the job."""
        while not (plan := self._whole_plan()) and self._is_to_be_done():
            with self.claims.held("plan") as is_ours:
                if is_ours and not self._whole_plan():
                    self._cut()
                    continue
            self._pause("another worker reads the text")
        return plan

    def _cut(self) -> None:
        """Make the plan, and see that it can be done: after hours of reading it would be late to find that a model
        knows no such search.
        """
        try:
            list(self.means.workers.map(load, [self._bundle()]))
            chunks = stage(self.order, self.parts, self._say_what_is_read)
        except (ConfigError, DataError, ModelError):  # put right, it is another order
            if not self._whole_plan() and self._is_to_be_done():
                self.folder.withdraw(self.number)
                self._clean_up()
            raise
        if not self._is_to_be_done():
            return
        asked, source = self.asked
        self.folder.write(Plan(asked=asked, source=source, order=self.order, number=self.number, chunks=chunks))
        if not self._whole_plan() and self._is_to_be_done():
            raise StageError(
                f"{self.parts.root}: what was just written there is not there: see that nothing else removes files "
                "from it, then run the same command again"
            )

    def _is_to_be_done(self) -> bool:
        """Whether our job is still the one that has begun. Where a store creates nothing on a condition, another may
        have taken its place.
        """
        begun = self.folder.begun()
        if not begun or begun.number != self.number:
            return False
        self._refuse_another(begun)
        return True

    def _whole_plan(self) -> Plan | None:
        """The plan, if it is there with all its chunks, or is done."""
        plan = self.folder.plan()
        if not plan or plan.number != self.number or plan.order.fingerprint != self.fingerprint:
            return None
        missing = set(range(len(plan.chunks))) - self.parts.staged()
        return None if missing and not self._done() else plan

    def _say_what_is_read(self, rows: int) -> None:
        self.means.progress(0, 0, f"{rows:,} lines read")

    def _refuse_another(self, begun: Begun) -> None:
        if begun.order.fingerprint != self.fingerprint:
            raise StageError(
                f"{self.folder.url}: holds another job, which is not done. What differs: "
                f"{'; '.join(differences(begun.order, self.order))}. {way_on(begun.order, self.order)}"
            )

    def _translate(self, plan: Plan) -> bool:
        """Until every chunk is there, whoever does them; False: the files of the job have gone."""
        done = self.parts.translated()
        pace = Pace(plan.lines, sum(plan.chunks[number].lines for number in done), self.means.progress)
        left = [number for number in range(len(plan.chunks)) if number not in done]
        while left:
            taken = []
            for result in self.means.workers.map(translate_chunk, self._tasks(left)):
                lines = plan.chunks[result.number].lines
                if result.state == "gone":
                    return False
                if result.state == "taken":
                    taken.append(result.number)
                    continue
                self.translated += lines * (result.state == "done")
                pace.add(lines)
            left = taken
            if left:
                self._pause("")
        return True

    def _tasks(self, numbers: list[int]) -> Iterator[ChunkTask]:
        bundle = self._bundle()
        return (ChunkTask(number, self.parts, bundle, self.claims) for number in numbers)

    def _bundle(self) -> Bundle:
        scores = any(holds_scores(output.kind) for output in outputs_of(self.order))
        return Bundle(self.means.bundle, self.order.model.sha256, self.order.search, self.means.threads, scores)

    def _merge(self, plan: Plan) -> Done:
        while True:
            with self.claims.held("merge") as is_ours:
                done = self._done() or (self._written(plan) if is_ours else None)
            if done:
                return done
            self._pause("another worker writes the output")

    def _written(self, plan: Plan) -> Done:
        self.means.progress(plan.lines, plan.lines, "writing the output")
        last = self.folder.done()
        former = {output.url for output in last.outputs} if last else ()
        done = self._finished(plan, merge(plan, self.parts, former, self._require_still_wanted))
        self._require_still_wanted()
        self.folder.write(done)
        return done

    def _require_still_wanted(self) -> None:
        """So that one who sleeps while others end the job, and begin the next, writes nothing over what came of it."""
        if not self._is_to_be_done():
            raise ArtifactError(f"{self.folder.url}: others have ended this job, and another was begun there since")

    def _finished(self, plan: Plan, statuses: dict[str, int]) -> Done:
        written = outputs_of(self.order)
        files = [identity(url, "") for output in written for url in output.urls]
        return Done(
            fingerprint=self.fingerprint,
            number=self.number,
            model=self.order.model.name,
            model_version=self.order.model.version,
            statuses=dict(sorted(statuses.items())),
            outputs=tuple(file for file in files if file),
        )

    def _clean_up(self) -> None:
        with suppress(Exception):  # somebody may still write there, and each store has errors of its own
            self.folder.clean_up()

    def _pause(self, note: str) -> None:
        if note:
            self.means.progress(0, 0, note)
        time.sleep(self.means.claim_seconds / _PARTS_OF_A_LEASE)
