"""Execution of the stages of a run, each with its inputs, a Prefect task, an MLflow run and a summary entry."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from prefect import State, get_run_logger, task
from prefect.artifacts import create_link_artifact, create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run, task_run
from prefect.states import Cancelled, Completed

from flows.display import outcome, reports
from flows.display.markdown import plain
from flows.display.progress import StageReporter, current_display
from flows.html_report.champion import champion_before
from flows.html_report.curves import show_training
from flows.html_report.finish import hand_out
from flows.html_report.operation import RECIPE, recipe_text
from flows.launchers import launcher_for
from flows.registry import verdicts
from flows.registry.candidate import STARTED_FROM_TAG, Candidate
from flows.registry.champions import alias_of
from flows.registry.register import is_registered, register_model
from flows.runs import endings
from flows.runs.changes import changes_of, in_words, leaves
from flows.runs.cost import Cost, StageMeter
from flows.runs.forecast import forecast_run
from flows.runs.machine import Machine
from flows.runs.ownership import ATTEMPT_TAG, FLOW_RUN_TAG, PROCESS_TAG
from flows.runs.selection import REGISTER, Selection, StepName
from flows.runs.start_from import MADE_OF, resolved
from flows.runs.summary import PAGE, RunSummary, Sample, Score, StageSummary, new_run_id, status_of
from flows.settings import Settings
from flows.tracking.describing import (
    REUSED_TAG,
    STAGE_TAG,
    headlines,
    kind_of,
    run_name,
    stage_name,
    verdict_of,
)
from flows.tracking.lineage import text_parts
from flows.tracking.mlflow_tracker import TrackedRun, Tracker
from flows.tracking.pages import CHANGES_TAG, KIND_TAG, RESULT, VERDICT_TAG, run_page
from flows.tracking.system_metrics import SYSTEM, sampled
from flows.workers.clusters import workers_for
from nmt_core.config import PipelineConfig
from nmt_core.errors import NmtError, StageError, without_password
from nmt_core.execution.processes import this_process
from nmt_core.stages.stage import Job, Stage, run_stage
from nmt_core.stages.table import STAGES, makers_of_inputs, stages_of
from nmt_core.store.artifacts import Artifact, fingerprint_of
from nmt_core.train.other_trainings import newest_update
from nmt_core.train.spent import read_spent

NOTE_TAG = "mlflow.note.content"
_LONGEST_TAG = 1_000
_SECONDS_FOR_A_LINK = 5  # wait of a finished stage for the id of its MLflow run
_SECONDS_UNTIL_MLFLOW_IS_BACK = 180  # wait of a finished run for an MLflow that went away: its curves took days
_READ_BY_REGISTER = ("export", "evaluate", "download", "clean", "split", "train", "synthesise", "augment")
_SECONDS_FOR_MLFLOW = 30  # wait of `register` for MLflow's first answer


@dataclass(frozen=True)
class Made:
    """Result of one step."""

    report: reports.Report
    reused: bool
    place: str
    """Folder of the artifact, or address of the registered model."""
    label: str
    """Short form of `place`, for people."""


@dataclass
class Step:
    """Running step."""

    name: str
    row: StageSummary
    tracked: TrackedRun
    reporter: StageReporter


class Retraining:
    """Context of one run. However the run ends, MLflow and the summary record it.

    Args:
        config: Recipe.
        selection: Steps of the run.
        run_id: Name of the run's folder. Empty means a new one.
    """

    def __init__(self, config: PipelineConfig, selection: Selection, run_id: str = "") -> None:
        self._settings = Settings.load()
        self._settings.prepare()
        self.config = resolved(config, self._settings)  # the Prefect UI starts runs without the command line
        selection.check(self.config)
        self.summary = RunSummary.begin(self.config, run_id or new_run_id(config.name))
        self._selection = selection
        self._display = current_display.get()
        self._changes = changes_of(config)
        self._fingerprints: dict[str, str] = {}
        self._artifacts: dict[str, Artifact] = {}
        self._unlinked: list[Step] = []
        self._start = time.monotonic()

    def __enter__(self) -> Self:
        self.summary.prefect_flow_run_id = str(flow_run.id or "")
        self.summary.currency = self._settings.prices.currency
        self.summary.machine = Machine.of(self._settings)
        with suppress(NmtError):  # the stage that the error concerns reports it
            self.summary.forecast = forecast_run(self.config, self._settings, self._selection)
        settings = self._settings
        self._tracker = Tracker(settings.mlflow_tracking_uri, self.config.name, settings.model_files, self._display.say)
        params = leaves(self.config.model_dump(mode="json", exclude={"description"}))
        self._alive = {ATTEMPT_TAG: str(flow_run.run_count or ""), PROCESS_TAG: this_process()}
        more = {NOTE_TAG: self._note(), KIND_TAG: kind_of(self._selection)} | self._alive
        more |= {CHANGES_TAG: in_words(self._changes)[:_LONGEST_TAG]} if self._changes else {}
        name = run_name(self._selection, self.config.name, self.summary.started)
        self._tracked = self._tracker.start(name, self._tags | more, params)
        self._tracker.text(self._tracked, without_password(recipe_text(self.summary.config)), RECIPE)
        self._save()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.summary.end(error)
        flow_page = self._settings.pages().flow_run(self.summary.prefect_flow_run_id)
        pages = {"Prefect": flow_page, "MLflow": self.mlflow_page(self._tracked.id)}
        self.summary.pages = {server: page for server, page in pages.items() if page}
        self._save()
        self._tracker.metrics(self._tracked, self.summary.cost.metrics())
        self._tracker.tags(self._tracked, self._result())
        if error is None or isinstance(error, Exception):  # after Ctrl-C, the user does not wait for a report
            page = self.mlflow_page(self._tracked.id, f"artifacts/{PAGE}")
            problem = hand_out(self.summary, self._settings, self._tracker, self._tracked, page)
            if problem and not error:
                self._display.say(problem)
        self._tracker.finish(self._tracked, status_of(error))
        self._tracker.close(patience=0 if error else _SECONDS_UNTIL_MLFLOW_IS_BACK)
        for step in self._unlinked[:]:  # these ended before MLflow had given them an id
            self._link(step)
        self._save()

    @property
    def _tags(self) -> dict[str, str]:
        return {FLOW_RUN_TAG: self.summary.prefect_flow_run_id, "nmt.run_id": self.summary.run_id}

    def begin_with(self, artifacts: Sequence[Artifact]) -> None:
        """Use artifacts of other runs as inputs.

        The first one is the input proper, and the others are the artifacts that it was made from. Those that a step of
        this run reads are fetched if another machine made them.
        """
        store, read = self._settings.store, self._reads()
        for artifact in artifacts:
            self._fingerprints[artifact.stage] = artifact.fingerprint
            find = store.find if artifact.stage in read else store.local
            if found := find(artifact.stage, artifact.fingerprint):
                self._artifacts[artifact.stage] = found
        self._note_inputs(artifacts)
        if artifacts:
            self._tracker.tags(self._tracked, {"artifact.input": artifacts[0].short})
        if self._text in self._artifacts:
            self._tracker.datasets(self._tracked, text_parts(self._artifacts[self._text]))

    def stage(self, name: StepName) -> None:
        """Make the artifact of a stage or reuse it, if the run includes the stage."""
        stage = STAGES[name]
        if not stage.is_part_of(self.config):
            return
        makers = makers_of_inputs(stage, self.config)
        made = {maker: self._fingerprints[maker] for maker in makers.values()}
        self._fingerprints[name] = fingerprint_of(stage.identity_of(self.config, made))
        if self._selection.begins_after(name):
            if found := self._settings.store.find(name, self._fingerprints[name]):
                self._artifacts[name] = found
                self._note_inputs([found])
        elif self._selection.includes(name):
            inputs = {need: self._input(maker, name) for need, maker in makers.items()}
            self._as_task(name, lambda step: self._make(stage, inputs, step))
        if name == self._text and name in self._artifacts:  # also if the run begins later: it trains on this text
            self._tracker.datasets(self._tracked, text_parts(self._artifacts[name]))

    @property
    def _text(self) -> str:
        """Stage that makes the text of training."""
        return makers_of_inputs(STAGES["train"], self.config)["split"]

    def _reads(self) -> set[str]:
        """Return the stages whose artifacts the steps of this run read."""
        included = [stage for stage in stages_of(self.config) if self._selection.includes(stage.name)]
        of_stages = {maker for stage in included for maker in makers_of_inputs(stage, self.config).values()}
        return of_stages | set(_READ_BY_REGISTER if self._selection.includes(REGISTER) else ())

    def _note_inputs(self, artifacts: Sequence[Artifact]) -> None:
        """Record, for `gc`, the artifacts that the run reads but did not make."""
        self.summary.inputs += [f"{artifact.stage}/{artifact.fingerprint}" for artifact in artifacts]
        self._save()

    def register(self) -> None:
        """Register the exported model, if the run includes this step."""
        if self._selection.includes(REGISTER):
            export, evaluate = (self._input(need, REGISTER) for need in ("export", "evaluate"))
            download, clean, split, train, synthesise, augment = map(self._artifacts.get, _READ_BY_REGISTER[2:])
            started_from = train.report()["started_from"] if train else ""
            made_of = {stage: self._fingerprints[stage] for stage in MADE_OF.values()}
            candidate = Candidate(
                export,
                evaluate,
                download,
                clean,
                made_of,
                started_from,
                split,
                train,
                synthesise,
                augment,
                rounds=self.summary.rounds,
            )
            self._fingerprints[REGISTER] = candidate.fingerprint
            self._as_task(REGISTER, lambda step: self._register(candidate, step))

    def _input(self, need: str, stage: str) -> Artifact:
        if need not in self._artifacts:
            raise StageError(
                f"stage {stage} needs the artifact of {need}, which does not exist for this configuration: "
                f"run `nmt run {self.config.name} --until {need}` first, with the same --set options"
            )
        return self._artifacts[need]

    def _as_task(self, name: str, work: Callable[[Step], Made]) -> None:
        """Run a step as a Prefect task of the same name, without Prefect's cache: the store knows what exists.

        Errors of a user and signals pass around Prefect, which would log the one as a bug and the other as a crash.
        """
        passed: list[BaseException] = []

        def observed() -> State:
            try:
                return self._observed(name, work)
            except NmtError as error:
                passed.append(error)
                return endings.state_of(error)
            except Exception:
                raise
            except BaseException as error:
                passed.append(error)
                return Cancelled(message=self._stopped(name))

        as_task = task(name=name, task_run_name=name, cache_policy=NO_CACHE, persist_result=False)
        state = as_task(observed)(return_state=True)
        if passed:
            raise passed[0]
        state.result()

    def _stopped(self, name: str) -> str:
        """Return, and log, what a stopped step has kept."""
        words = f"{name}: stopped"
        if update := newest_update(self._settings.store.partial(name, self._fingerprints[name])):
            words += f" with a checkpoint of update {update:,}: the same run resumes there"
        get_run_logger().info(words)
        return words

    def _observed(self, name: str, work: Callable[[Step], Made]) -> State:
        """Run a step, and report its progress and result to the display, the summary, MLflow and Prefect."""
        start = time.monotonic()
        self._display.begin(name)
        fingerprint = self._fingerprints[name]
        row = StageSummary(name=name, fingerprint=fingerprint, status="running")
        self.summary.stages.append(row)
        tags = {"artifact.fingerprint": fingerprint, "prefect.task_run_id": str(task_run.id or "")}
        tags |= self._tags | self._alive | {STAGE_TAG: name, KIND_TAG: "stage"}
        title = stage_name(name, self._changes)
        tracked = self._tracker.start(title, tags, {}, parent=self._tracked, lazily=True)
        step = Step(name, row, tracked, StageReporter(name, get_run_logger(), self._tracker, tracked))
        meter = StageMeter(read_spent(self._settings.store.partial(name, fingerprint)))
        self._save()
        try:
            with meter.watching_memory(), sampled(meter.passing_on(step.reporter.metrics)):
                made = work(step)
        except BaseException as error:
            row.status = "failed" if status_of(error) == "FAILED" else "killed"
            row.seconds = round(time.monotonic() - start, 2)
            after = read_spent(self._settings.store.partial(name, fingerprint))
            row.cost = meter.cost({}, after, self._settings.prices)
            self._tracker.metrics(tracked, row.cost.metrics())
            self._tracker.finish(tracked, status_of(error))
            self._display.end(name, row.status)
            raise
        row.seconds = round(time.monotonic() - start, 2)
        row.cost = Cost(seconds=row.seconds)
        if not made.reused:
            row.cost = meter.cost(made.report, read_spent(Path(made.place)), self._settings.prices)
        self._record(step, made)
        self._log_result(step)
        return Completed(name="Cached", message=made.label) if made.reused else Completed()

    def _log_result(self, step: Step) -> None:
        """Log what the terminal shows of a step's result."""
        step.reporter.log(outcome.step_line(step.row))
        if step.name == "evaluate":
            for score in self.summary.metrics:
                step.reporter.log(outcome.score_line(score).plain)
        if step.name == REGISTER and self.summary.model:
            step.reporter.log(outcome.model_line(self.summary.model).plain)

    def _record(self, step: Step, made: Made) -> None:
        row, report = step.row, made.report
        row.status, row.reused = ("reused" if made.reused else "done"), made.reused
        row.items_in, row.items_out, row.unit = report["items_in"], report["items_out"], report["unit"]
        self.summary.sizes = self.summary.sizes.with_report(step.name, report)
        row.artifact = made.place
        text = reports.markdown(f"{step.name}: {made.label}", report)
        if not made.reused or step.tracked.exists:
            self._track(step, made, text)
        of_all = {f"artifact.{step.name}": row.fingerprint}
        of_all |= {STARTED_FROM_TAG: report["started_from"]} if report.get("started_from") else {}
        self._tracker.tags(self._tracked, of_all)
        self._tracker.id_of(step.tracked, _SECONDS_FOR_A_LINK)
        self._show_in_prefect(step, text)
        self._display.end(step.name, "reused" if made.reused else f"{row.seconds:.1f} s")
        self._save()

    def _track(self, step: Step, made: Made, text: str) -> None:
        """Log the result of a step to its MLflow run. A step that was reused has none."""
        tags = {"artifact.path": made.place, "artifact.reused": str(made.reused).lower()}
        self._tracker.tags(step.tracked, tags | {"artifact.fingerprint": step.row.fingerprint})
        numbers = reports.metrics(made.report) | step.row.cost.metrics()
        curves = step.reporter.curves  # these have points already; another one would be at update 0
        section = RESULT if any(not name.startswith(SYSTEM) for name in curves) else ""
        others = {f"{section}{name}": value for name, value in numbers.items() if name not in curves}
        self._tracker.metrics(step.tracked, others)
        self._tracker.text(step.tracked, text, "report.md")
        self._tracker.finish(step.tracked, "FINISHED")

    def _result(self) -> dict[str, str]:
        """Return the tags of the whole run that are known when it has ended."""
        reused = [row.name for row in self.summary.stages if row.reused]
        tags = {REUSED_TAG: ", ".join(reused)} if reused else {}
        tags |= {KIND_TAG: "nothing new"} if reused and len(reused) == len(self.summary.stages) else {}
        if model := self.summary.model:
            tags |= {VERDICT_TAG: verdict_of(model)[:_LONGEST_TAG], "model": model.uri, NOTE_TAG: self._note()}
        return tags

    def _note(self) -> str:
        """Return the description of the MLflow run."""
        return outcome.mlflow_note(self.summary, self._changes, self._settings.pages())

    def _show_in_prefect(self, step: Step, text: str) -> None:
        page = self.mlflow_page(step.tracked.id)
        tracked = f"MLflow run: {page or step.tracked.id}\n\n" if step.tracked.exists else ""
        where = f"{tracked}Fingerprint: {step.row.fingerprint}\n"
        create_markdown_artifact(f"{text}\n{where}", key=f"report-{step.name}", description=f"Report of {step.name}")
        self._link(step)

    def _link(self, step: Step) -> None:
        if not step.tracked.exists:  # it was reused
            return
        step.row.mlflow_run_id = step.tracked.id
        if not step.tracked.id:
            self._unlinked.append(step)
        elif page := self.mlflow_page(step.tracked.id):
            create_link_artifact(page, key=f"mlflow-{step.name}", description=f"MLflow run of {step.name}")

    def mlflow_page(self, run_id: str, tab: str = "") -> str:
        """Return the address of the page of an MLflow run of this recipe, or an empty text if no server shows it.

        Args:
            run_id: Id of the run.
            tab: Part of the page.
        """
        server = self._settings.pages().mlflow
        if not server or not run_id:
            return ""
        if not self._tracker.experiment:
            self._tracker.id_of(self._tracked, _SECONDS_FOR_A_LINK)
        return run_page(server, self._tracker.experiment, run_id, tab)

    def _make(self, stage: Stage, inputs: Mapping[str, Artifact], step: Step) -> Made:
        settings, store, budget = self._settings, self._settings.store, self.config.budget
        force, launcher = stage.name in self._selection.force, launcher_for(settings, self.config.name)
        with workers_for(settings) as workers:
            job = Job(step.reporter, settings.resources, workers, launcher, budget, allow_code=settings.allow_code)
            try:
                outcome = run_stage(stage, self.config, store, inputs, job, force=force, on_damage=step.reporter.warn)
            except BaseException:
                show_training(store.partial(stage.name, self._fingerprints[stage.name]), self._tracker, step.tracked)
                raise
        if not outcome.reused:
            show_training(outcome.artifact.path, self._tracker, step.tracked)
        artifact = self._artifacts[stage.name] = outcome.artifact
        # The first download computes the hashes of its files, which then become part of its fingerprint.
        self._fingerprints[stage.name] = step.row.fingerprint = artifact.fingerprint
        report = artifact.report()
        if stage.name == "evaluate":
            self.summary.metrics = [Score.model_validate(score) for score in report["scores"]]
            self.summary.samples = [Sample.model_validate(sample) for sample in report["samples"]]
            scores = reports.metrics({"scores": report["scores"]}) | headlines(self.summary.metrics)
            self._tracker.metrics(self._tracked, scores)
        if stage.name == "export":
            self.summary.not_published = report.get("costs", [])
        return Made(report, outcome.reused, str(artifact.path), artifact.short)

    def _register(self, candidate: Candidate, step: Step) -> Made:
        name, uri = self.config.model_name, self._settings.mlflow_tracking_uri
        run_id = self._tracker.id_of(self._tracked, _SECONDS_FOR_MLFLOW)
        if run_id and not is_registered(name, candidate, uri):
            self._tracker.create(step.tracked)
            run_id = self._tracker.id_of(step.tracked, _SECONDS_FOR_MLFLOW)
        fingerprints = candidate.export.fingerprint, candidate.evaluate.fingerprint
        pairs = self.config.languages.pairs if self.config.registry.champion == "pair" else ()
        champions = {pair: champion_before(name, alias_of(pair), *fingerprints, uri) for pair in ("", *pairs)}
        self.summary.champion = champions.pop("")
        self.summary.champions_of_pairs = {pair: known for pair, known in champions.items() if known}
        model = register_model(self.config, candidate, self._settings, run_id, self._tags)
        self.summary.model = model
        about = model.model_dump(mode="json", exclude={"made_of", "gate"})
        if model.gate:
            text = verdicts.markdown(model.gate)
            tracked = step.tracked if step.tracked.exists else self._tracked
            self._tracker.text(tracked, text, verdicts.MARKDOWN)
            self._tracker.text(tracked, model.gate.model_dump_json(indent=1), verdicts.JSON)
            create_markdown_artifact(text, "verdict", f"Verdict on {plain(model.uri)}, with its checks")
        report = {"items_in": 1, "items_out": 1, "unit": "model", **about}
        return Made(report, model.reused, model.uri, f"{model.name} version {model.version}")

    def _save(self) -> None:
        self.summary.seconds = round(time.monotonic() - self._start, 2)
        self.summary.mlflow_run_id = self._tracked.id
        self.summary.write(self._settings.runs)
