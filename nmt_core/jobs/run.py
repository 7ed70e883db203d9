"""Run a translation job from wherever an earlier attempt stopped. Several attempts may run at the same time."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import polars as pl

from nmt_core.drift.profile import Profile
from nmt_core.errors import ArtifactError, ConfigError, DataError, ModelError, StageError, counted, words_of
from nmt_core.execution.pool import InProcess, Workers
from nmt_core.jobs.chunk import JUDGE_PROBLEM, TERMS, TOKENS, Bundle, ChunkTask, load, translate_chunk
from nmt_core.jobs.claims import Claims
from nmt_core.jobs.folder import Done, JobFolder, Parts
from nmt_core.jobs.inputs import identity
from nmt_core.jobs.makers import chunks_by_maker, described, ranges, this_maker
from nmt_core.jobs.merge import merge, outputs_of, require_free_targets
from nmt_core.jobs.order import Begun, JobRequest, Order, Plan, differences, way_on
from nmt_core.jobs.pace import Pace, Progress, silence
from nmt_core.jobs.profiles import profile_of_job
from nmt_core.jobs.review import review_file, write_review
from nmt_core.jobs.shadow import run_shadow
from nmt_core.jobs.shadow_result import ShadowResult
from nmt_core.jobs.staging import stage
from nmt_core.jobs.writers import holds_scores
from nmt_core.stages.stage import is_full_disk
from nmt_core.store import storage
from nmt_core.store.storage import local_path
from nmt_core.terms.glossary import Term

_PARTS_OF_A_LEASE = 20
_STORES = frozenset({"aiobotocore", "aiohttp", "azure", "botocore", "gcsfs", "google"})
"""Packages that raise the errors of stores."""


@dataclass(frozen=True)
class Means:
    """Resources for a job. None of them changes the result."""

    bundle: str
    """Folder of the model, at a path that all workers can read."""
    threads: int = 1
    """Number of CPU threads of each worker."""
    workers: Workers = field(default_factory=InProcess)
    claim_seconds: float = 60.0
    progress: Progress = silence
    say: Callable[[str], None] = lambda message: None
    """Callback for messages to the user."""
    shadow: str = ""
    """Folder of the challenger, at a path that this process can read. Empty if the order has none."""
    terms: tuple[Term, ...] = ()
    """Terms of the order's glossary. Unlike the others, they change the result, so the order has their hash."""


@dataclass(frozen=True)
class Outcome:
    """Result of one attempt at a job."""

    done: Done
    reused: bool
    """True if the job was already done."""
    translated: int
    """Number of rows that this attempt translated. Other attempts may have translated more."""
    seconds: float


def run_job(request: JobRequest, order: Order, folder: JobFolder, means: Means) -> Outcome:
    """Do what is left of a job. Afterwards its output exists and its chunks are removed.

    Args:
        request: the model and the text as the user named them. They are recorded with the order.
        order: everything that determines the output.
        folder: the folder of the job, which need not exist.
        means: the model's folder, the workers and their resources.

    Raises:
        ConfigError: the output format cannot hold what the search returns, or the model does not support the search.
        StageError: the folder holds another unfinished job, a disk is full, or a store fails.
        DataError: the text cannot be read, or the output cannot be written to its target.
        ModelError: the model cannot be loaded, or has changed.
    """
    try:
        require_free_targets(order)
        attempt = _Attempt(request, order, folder, means)
        done, reused = attempt.run()
        return Outcome(done, reused, attempt.translated, time.monotonic() - attempt.start)
    except Exception as error:
        if is_full_disk(error):
            problem = f"the disk of {folder.url} or of {order.target} is full: free space"
        elif isinstance(error, OSError) and error.filename:
            problem = f"{error.filename}: {error.strerror}: fix this"
        elif isinstance(error, OSError) or type(error).__module__.partition(".")[0] in _STORES:
            problem = f"a store fails ({words_of(error)}): check that {_places(order, folder)} can be reached"
        else:
            raise
        raise StageError(f"{problem}, then run the same command again ({_kept(folder, order)})") from None


def _places(order: Order, folder: JobFolder) -> str:
    """Return the stores that a job reads and writes, or its local places if it uses no store, as text for users."""
    places = dict.fromkeys([order.inputs[0].url, folder.url, order.target])
    return " and ".join(place for place in places if not local_path(place)) or " and ".join(places)


def _kept(folder: JobFolder, order: Order) -> str:
    with suppress(Exception):  # the chunks may be on the store or disk that fails
        return f"{counted(len(folder.parts(order.fingerprint).translated()), 'chunk is', 'chunks are')} done and kept"
    return "chunks that are done are kept"


class _Attempt:
    def __init__(self, request: JobRequest, order: Order, folder: JobFolder, means: Means) -> None:
        self.request = request
        self.order = order
        self.fingerprint = order.fingerprint
        self.folder = folder
        self.parts: Parts = folder.parts(self.fingerprint)
        self.means = means
        self.claims = Claims(self.parts.claims, means.claim_seconds)
        self.number = 0
        """Number of the job in its folder. 0 until it has begun."""
        self.start = time.monotonic()
        self.translated = 0

    def run(self) -> tuple[Done, bool]:
        if done := self._done_before():
            return done, True
        begun = self.folder.begin(self.request, self.order)
        if done := self._done_before():  # another attempt has finished the job since, and `begin` began it again
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
        self._clean_up()  # including files that this attempt wrote too late
        return done, False

    def _done_before(self) -> Done | None:
        """Return the result of the job if its output is still there."""
        done = self._done()
        if not done or any(identity(output.url, output.name) != output for output in done.outputs):
            return None
        self._clean_up()  # a kill at the last moment leaves files behind
        return done

    def _rest(self) -> Done:
        """Do what is left of the job.

        Files may vanish meanwhile: an attempt that took this one for dead may have finished the job and cleaned up.
        """
        plan = self._plan()
        if plan and self._translate(plan):
            return self._merge(plan)
        if done := self._done():
            return done
        raise ArtifactError(
            f"{self.parts.root}: files of the job are missing, and the job is not done: restore them, or name another "
            "folder for the job"
        )

    def _done(self) -> Done | None:
        """Return the result of the job, from whichever attempt finished it.

        Once this job has begun, the result of an earlier job with the same order is not its result.
        """
        done = self.folder.done()
        return done if done and done.fingerprint == self.fingerprint and done.number >= self.number else None

    def _plan(self) -> Plan | None:
        """Return the plan, cut by this attempt or by another. None means that another attempt has finished the job."""
        while not (plan := self._whole_plan()) and self._is_to_be_done():
            with self.claims.held("plan") as is_ours:
                if is_ours and not self._whole_plan():
                    self._cut()
                    continue
            self._pause("another worker is reading the text")
        return plan

    def _cut(self) -> None:
        """Load the model, cut the text into chunks and write the plan.

        The model is loaded first: reading may take hours, and the model may not support the search.
        """
        try:
            list(self.means.workers.map(load, [self._bundle()]))
            chunks = stage(self.order, self.parts, self._say_what_is_read)
        except (ConfigError, DataError, ModelError):  # once corrected, it is another order
            if not self._whole_plan() and self._is_to_be_done():
                self.folder.withdraw(self.number)
                self._clean_up()
            raise
        if not self._is_to_be_done():
            return
        model, source = self.request
        self.folder.write(Plan(asked=model, source=source, order=self.order, number=self.number, chunks=chunks))
        if not self._whole_plan() and self._is_to_be_done():
            raise StageError(
                f"{self.parts.root}: a file that was just written there is missing: make sure that nothing else "
                "removes files from this folder, then run the same command again"
            )

    def _is_to_be_done(self) -> bool:
        """Return True if this job is still the one that has begun in its folder.

        Where a store has no conditional writes, another job may have taken its place: that raises `StageError`.
        """
        begun = self.folder.begun()
        if not begun or begun.number != self.number:
            return False
        self._refuse_another(begun)
        return True

    def _whole_plan(self) -> Plan | None:
        """Return the plan if all its chunks are staged or the job is done, else None."""
        plan = self.folder.plan()
        if not plan or plan.number != self.number or plan.order.fingerprint != self.fingerprint:
            return None
        missing = set(range(len(plan.chunks))) - self.parts.staged()
        return None if missing and not self._done() else plan

    def _say_what_is_read(self, rows: int) -> None:
        self.means.progress(0, 0, f"{counted(rows, 'line')} read")

    def _refuse_another(self, begun: Begun) -> None:
        if begun.order.fingerprint != self.fingerprint:
            raise StageError(
                f"{self.folder.url}: holds another job, which is not done. Differences: "
                f"{'; '.join(differences(begun.order, self.order))}. {way_on(begun.order, self.order)}"
            )

    def _translate(self, plan: Plan) -> bool:
        """Translate until all workers together have done every chunk. Return False if files of the job are gone."""
        done = self.parts.translated()
        if done and not self.translated:
            self._say_what_is_done(plan, done)
        pace = Pace(plan.lines, sum(plan.chunks[number].lines for number in done), self.means.progress)
        left = [number for number in range(len(plan.chunks)) if number not in done]
        while left:
            taken = []
            for result in self.means.workers.map(translate_chunk, self._tasks(left, plan.lines)):
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

    def _say_what_is_done(self, plan: Plan, done: set[int]) -> None:
        lines = sum(plan.chunks[number].lines for number in done)
        self.means.say(f"resuming: {lines:,} of {plan.lines:,} done")
        others = {maker: own for maker, own in chunks_by_maker(self.parts, done).items() if maker != this_maker()}
        if others:
            self.means.say(f"the code has changed since: {described(others)}; the other chunks by {this_maker()}")

    def _tasks(self, numbers: list[int], all_lines: int) -> Iterator[ChunkTask]:
        bundle = self._bundle()
        return (ChunkTask(number, self.parts, bundle, self.claims, all_lines) for number in numbers)

    def _bundle(self) -> Bundle:
        scores = any(holds_scores(output.kind) for output in outputs_of(self.order))
        means = self.means
        return Bundle(
            means.bundle, self.order.model.sha256, self.order.search, means.threads, scores, means.terms, self.order.to
        )

    def _merge(self, plan: Plan) -> Done:
        while True:
            with self.claims.held("merge") as is_ours:
                done = self._done() or (self._written(plan) if is_ours else None)
            if done:
                return done
            self._pause("another worker is writing the output")

    def _written(self, plan: Plan) -> Done:
        self.means.progress(plan.lines, plan.lines, "writing the output")
        last = self.folder.done()
        former = {output.url for output in last.outputs} if last else ()
        makers = chunks_by_maker(self.parts, range(len(plan.chunks)))
        terms = self._terms(len(plan.chunks)) if self.order.glossary else (0, 0)
        tokens = self._tokens(len(plan.chunks))
        statuses = merge(plan, self.parts, former, self._require_still_wanted)
        shadow = self._shadow(plan)
        review = write_review(plan, self.parts, with_shadow=bool(shadow and not shadow.problem))
        not_judged, problem = self._not_judged(len(plan.chunks)) if self.order.search.judge else (0, "")
        done = self._finished(statuses, makers, terms, tokens).model_copy(
            update={"shadow": shadow, "review": review, "not_judged": not_judged, "judge_problem": problem}
        )
        profile = profile_of_job(self.parts, range(len(plan.chunks)))
        self._require_still_wanted()
        self.folder.write(profile or Profile())
        self.folder.write(done)
        return done

    def _shadow(self, plan: Plan) -> ShadowResult | None:
        """Compare the challenger with the champion, whose output is complete."""
        if not self.order.shadow:
            return None
        self.means.progress(plan.lines, plan.lines, "translating a share by the challenger")
        return run_shadow(self.order.shadow, self.parts, len(plan.chunks), self._bundle(), self.means.shadow)

    def _require_still_wanted(self) -> None:
        """Raise if another attempt has finished this job: a stalled one must not overwrite what came later."""
        if not self._is_to_be_done():
            raise ArtifactError(
                f"{self.folder.url}: another worker has finished this job meanwhile: this attempt writes nothing"
            )

    def _terms(self, chunks: int) -> tuple[int, int]:
        """Return the number of terms in the text, and of those that are kept."""
        counts = [storage.read(self.parts.output(number), list(TERMS)).sum().row(0) for number in range(chunks)]
        return sum(count for count, _ in counts), sum(kept for _, kept in counts)

    def _not_judged(self, chunks: int) -> tuple[int, str]:
        """Return the number of rows for which the judge did not choose, and the first reason."""
        count, first = 0, ""
        for number in range(chunks):
            problems = storage.read(self.parts.output(number), [JUDGE_PROBLEM])[JUDGE_PROBLEM].drop_nulls()
            count += len(problems)
            first = first or next(iter(problems), "")
        return count, first

    def _tokens(self, chunks: int) -> int | None:
        """Return the number of target tokens, or None if a chunk of an earlier version does not have its number."""
        try:
            return sum(int(storage.read(self.parts.output(number), [TOKENS]).sum().item()) for number in range(chunks))
        except pl.exceptions.ColumnNotFoundError:
            return None

    def _finished(
        self, statuses: dict[str, int], makers: dict[str, list[int]], terms: tuple[int, int], tokens: int | None
    ) -> Done:
        written = outputs_of(self.order)
        urls = [url for output in written for url in output.urls]
        files = [identity(url, "") for url in [*urls, *([review_file(self.order)] if self.order.review else [])]]
        return Done(
            fingerprint=self.fingerprint,
            number=self.number,
            model=self.order.model.name,
            model_version=self.order.model.version,
            statuses=dict(sorted(statuses.items())),
            terms=terms[0],
            terms_kept=terms[1],
            tokens=tokens,
            made_by={maker: ranges(numbers) for maker, numbers in makers.items()} if len(makers) > 1 else {},
            outputs=tuple(file for file in files if file),
        )

    def _clean_up(self) -> None:
        with suppress(Exception):  # another worker may still write there, and each store has its own errors
            self.folder.clean_up()

    def _pause(self, note: str) -> None:
        if note:
            self.means.progress(0, 0, note)
        time.sleep(self.means.claim_seconds / _PARTS_OF_A_LEASE)
