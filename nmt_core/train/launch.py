"""Stage `train`: start the training processes, relay their output, and check how they ended."""

import json
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from nmt_core.config import BudgetConfig, PipelineConfig
from nmt_core.errors import BudgetError, PreemptedError, StageError, counted
from nmt_core.execution.torchrun import CONFIG, Launched, Notice
from nmt_core.judges.files import contents_of
from nmt_core.judges.lines import require_code
from nmt_core.spelling import Spelling
from nmt_core.stages.stage import Inputs, Job, StageReport
from nmt_core.store.artifacts import Identity
from nmt_core.train.continuing import read_continued, take_up_another
from nmt_core.train.curriculum import BegunPhase, read_phases
from nmt_core.train.curves import METRICS as METRICS
from nmt_core.train.restarts import forget_restarts
from nmt_core.train.spent import Spent, read_spent
from nmt_core.train.start import Start, content, find_start
from nmt_core.train.status import clear_status, read_status
from nmt_core.train.watchdog import updates_passed_by

DEV_TEXT = "dev_text"
"""Section of a job's configuration with the location of the dev text. Present only if validations translate it."""
BUDGET = "budget"
"""Section of a job's configuration with its budget."""
PROFILE = "profile"
"""Name of the folder of the profiler, with one trace and one table for each process."""
_HOW_IT_IS_SPREAD = {"parallel", "shard_size", "max_tokens_per_pass", "activation_checkpointing", "compile_layers"}
_HOW_IT_IS_WATCHED = {"dev_samples", "profile_updates"}


class TrainReport(StageReport):
    """Report of `train`."""

    updates: int
    train_loss: float
    dev_loss: float
    """Last unsmoothed loss on the dev set, in nats per target token, the unit of all losses here."""
    best_dev_loss: float
    target_tokens_per_second: float
    useful_token_share: float
    """Share of the computed tokens that are not padding."""
    model_flop_utilisation: float
    """Share of the devices' rate in large matrix products that the model used."""
    dev_bleu: float | None
    """BLEU of the last validation's translations. None if `train.dev_sentences` is 0."""
    dev_chrf: float | None
    """chrF of the last validation's translations. None if `train.dev_sentences` is 0."""
    updates_passed_by: int
    """Updates without effect. Training went back to a checkpoint before them because a loss was too high or not finite,
    and left out their data. See `incidents.jsonl`."""
    started_from: str
    """Artifact or file of the initial weights. Empty means random weights."""
    continued_from: str = ""
    """Training that made the first updates, with their number. It differs only in `ONLY_THE_END`. Its seconds and
    attempts are not counted here. Empty means that this training made all updates."""
    phases: tuple[BegunPhase, ...] = ()
    """Phases of the curriculum that began, in order. Empty means no curriculum."""
    tokens: int
    """Target tokens of all updates. Tokens that are read several times count each time."""
    floating_point_operations: float = 0.0
    """Operations of all updates (the cost in Vaswani et al. 2017, table 2): the forward and backward passes over the
    tokens that are not padding, without the products of attention weights. 0 means that an earlier version, which did
    not count them, made a part of the updates."""
    seconds: float
    """Seconds from the start of the processes to their end, over all attempts."""
    gpu_seconds: float
    """Sum of `seconds` over all GPUs. 0 on CPUs."""
    cpu_seconds: float
    """CPU time of all processes in seconds, over all attempts."""
    attempts: int
    """Number of times that the processes were started."""


def identity(config: PipelineConfig) -> Identity:
    """Return the options that decide the weights and the curves: all except how the work is spread and logged.

    Options that decide which checkpoints are kept, and when training stops, are included. Languages and spelling decide
    how the dev set is translated and scored, but they are part of the text's fingerprint already. Initial weights count
    by their content, not by their path.
    """
    no_part = _HOW_IT_IS_SPREAD | _HOW_IT_IS_WATCHED
    sections = {"model": config.model.model_dump(mode="json"), "train": config.train.model_dump(mode="json")}
    sections["train"] = {name: value for name, value in sections["train"].items() if name not in no_part}
    sections["train"] |= content(config.train)
    if config.train.dev_metric and (files := contents_of(config.train.dev_metric)):
        sections["dev_metric_files"] = files
    return sections


def run(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> TrainReport:
    """Train, or resume training, in `out`.

    Raises:
        StageError: training cannot start or continue. The message holds the reason.
        ProgramError: the recipe names a program that judges the dev set, and recipes may not name code here.
        PreemptedError: the processes were stopped from outside, and have written a checkpoint to resume from.
        BudgetError: the budget is spent, by this attempt or by earlier ones.
    """
    if (metric := config.train.dev_metric) and metric.command:
        require_code(f"train.dev_metric: `{metric.command}`", allow_code=job.allow_code)
    start = find_start(config.train, config.model, inputs["tokenizer"])
    if start.name:
        job.reporter.log(f"starting from {start.name}")
    is_new = read_continued(out) is None
    continued = take_up_another(out, config.train, job.reporter.log)
    if continued and is_new:
        _tell_the_curves_of_another(out, job)
    _require_a_budget(out, job.budget)
    start = start.model_copy(update={"continued": continued})
    settings = _job(config, inputs, start) | {BUDGET: job.budget.model_dump()}
    (out / CONFIG).write_text(json.dumps(settings, indent=1))
    clear_status(out)
    forget_restarts(out)
    with job.launcher.launch(out) as launched:
        last_lines = _relay(launched, config.train.max_updates, job)
        code = launched.wait()
    _require_the_end(out, code, last_lines)
    forget_restarts(out)
    return _report(out, inputs["encode"].report()["items_out"], start.name, read_spent(out))


def _tell_the_curves_of_another(out: Path, job: Job) -> None:
    """Report the points of the updates that another training made, so that the curves begin at update 0."""
    for line in (out / METRICS).read_text(encoding="utf-8").splitlines():
        point = json.loads(line)
        job.reporter.metrics(int(point.pop("update")), point)


def _job(config: PipelineConfig, inputs: Inputs, start: Start) -> dict[str, Any]:
    """Return the configuration of the processes. Text and tokenizers are included only if validations translate."""
    data = str(inputs["encode"].path.resolve())
    sections = {"train": config.train.model_dump(), "model": config.model.model_dump(), "data": data}
    sections["start"] = start.model_dump(mode="json")
    if config.train.dev_sentences:
        sections[DEV_TEXT] = {
            "text": str(inputs["split"].path.resolve()),
            "tokenizers": str(inputs["tokenizer"].path.resolve()),
            "target_language": config.languages.target,
            "spelling": Spelling.of(config.clean, config.languages.source),
        }
    return sections


def _relay(launched: Launched, max_updates: int, job: Job) -> list[str]:
    """Turn the lines of the first process into progress, curves and log, until all processes have ended.

    Returns:
        The last 20 lines of the log.
    """
    last_lines: deque[str] = deque(maxlen=20)
    for line in launched.lines():
        point = _parse(line)
        if point is None:
            last_lines.append(line)
            say = job.reporter.notice if isinstance(line, Notice) else job.reporter.log
            say(line)
        else:
            update = int(point.pop("update"))
            job.reporter.metrics(update, point)
            job.reporter.log(_line(update, max_updates, point))
            job.reporter.progress(update, max_updates, _note(point))
    return list(last_lines)


def _require_a_budget(out: Path, budget: BudgetConfig) -> None:
    """Raise an error if earlier attempts have spent the budget: another one would end after its first update.

    Raises:
        BudgetError: the budget is spent.
    """
    if spent := read_spent(out).over(budget):
        saved = max((int(file.parent.name) for file in out.glob("checkpoints/*/.metadata")), default=0)
        raise _out_of_budget(spent, saved)


def _out_of_budget(spent: str, update: int) -> BudgetError:
    return BudgetError(
        f"train: the budget is spent ({spent}) after {counted(update, 'update')}, with a checkpoint: raise it, and "
        "the same command resumes from there"
    )


def _require_the_end(out: Path, code: int, last_lines: list[str]) -> None:
    """Raise the error that kept the job from finishing, if it is not finished."""
    status = read_status(out)
    if status is None and code == PreemptedError.exit_code:
        raise PreemptedError(
            "train: stopped from outside before there was anything to save: the same command starts again from the "
            "last checkpoint, if there is one"
        )
    if status is None:
        detail = "\n".join(last_lines)
        raise StageError(f"train: the processes crashed or were killed, with exit code {code}: {detail}")
    if status.state == "failed":
        raise StageError(f"train: {status.error}")
    if status.budget:
        raise _out_of_budget(status.budget, status.update)
    if status.state == "stopped":
        raise PreemptedError(
            f"train: stopped from outside after {counted(status.update, 'update')}, with a checkpoint: the same "
            "command resumes from there"
        )


def _parse(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        point = json.loads(line)
    except ValueError:
        return None
    return point if isinstance(point, dict) else None


def _note(point: Mapping[str, float]) -> str:
    """Return a point as a short text for the terminal."""
    if "dev_loss" in point:
        scores = f", BLEU {point['dev_bleu']:.1f}, chrF {point['dev_chrf']:.1f}" if "dev_bleu" in point else ""
        scores += f", dev metric {point['dev_metric']:.4g}" if "dev_metric" in point else ""
        return f"dev loss {point['dev_loss']:.3f}{scores}"
    left = timedelta(seconds=round(point["seconds_left"]))
    return f"loss {point['train_loss']:.3f}, {point['target_tokens_per_second']:,.0f} tokens/s, {left} left"


def _line(update: int, max_updates: int, point: Mapping[str, float]) -> str:
    """Return a point as one line for the log."""
    if "dev_loss" in point:
        return f"update {update:,} of {max_updates:,}: {_note(point)}, lowest dev loss {point['best_dev_loss']:.3f}"
    return (
        f"update {update:,} of {max_updates:,}: {_note(point)}, {point['useful_token_share']:.1%} of tokens useful, "
        f"{point['model_flop_utilisation']:.1%} model FLOP utilisation, learning rate "
        f"{point['learning_rate']:.2e}, gradient norm {point['gradient_norm']:.3f}, {point['data_wait_share']:.1%} "
        f"waiting for data, {point['memory_bytes'] / 1e9:.2f} GB"
    )


def _report(out: Path, pairs: int, started_from: str, spent: Spent) -> TrainReport:
    points = [json.loads(line) for line in (out / METRICS).read_text().splitlines()]
    training = [point for point in points if "train_loss" in point]
    validation = [point for point in points if "dev_loss" in point][-1]
    half = training[len(training) // 2 :]
    continued = read_continued(out)
    return TrainReport(
        items_in=pairs,
        items_out=len({file.name.partition(".")[0] for file in (out / "weights").glob("*.safetensors")}),
        unit="checkpoints",
        updates=training[-1]["update"],
        train_loss=training[-1]["train_loss"],
        dev_loss=validation["dev_loss"],
        best_dev_loss=validation["best_dev_loss"],
        target_tokens_per_second=sum(point["target_tokens_per_second"] for point in half) / len(half),
        useful_token_share=sum(point["useful_token_share"] for point in half) / len(half),
        model_flop_utilisation=sum(point["model_flop_utilisation"] for point in half) / len(half),
        dev_bleu=validation.get("dev_bleu"),
        dev_chrf=validation.get("dev_chrf"),
        updates_passed_by=updates_passed_by(out),
        started_from=started_from,
        continued_from=f"{continued.name} at update {continued.update:,}" if continued else "",
        phases=tuple(read_phases(out)),
        tokens=round(sum(point["target_tokens"] for point in training)),
        floating_point_operations=_operations(training),
        seconds=round(spent.seconds, 2),
        gpu_seconds=round(spent.gpu_seconds, 2),
        cpu_seconds=round(spent.cpu_seconds, 2),
        attempts=spent.attempts,
    )


def _operations(points: Sequence[Mapping[str, float]]) -> float:
    name = "floating_point_operations"
    return sum(point[name] for point in points) if all(name in point for point in points) else 0.0
