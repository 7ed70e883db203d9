"""Report sections about the model's speed and size, the cost of the run, and how to reproduce it."""

import shlex
from typing import Any

import yaml

from flows.display import forecasts, reports
from flows.html_report.blocks import Block, Code, Run, Section, Table, Text, duration, number
from flows.runs.cost import Cost, PartCost, part_costs
from nmt_core.config.budget import SECONDS_PER_HOUR

RECIPE = "recipe.yaml"
"""Name of the file in the run's folder that holds the complete configuration."""

_DEVICES = {"cpu": "CPU", "cuda": "GPU"}


def speed_and_size(run: Run) -> Section:
    """Describe the speed and the size of the exported model."""
    export, evaluate = run.report("export"), run.report("evaluate")
    blocks: list[Block] = []
    if evaluate:
        blocks.append(
            Text(
                f"The test sets were translated at {evaluate['sentences_per_second']:,.1f} sentences and "
                f"{evaluate['tokens_per_second']:,.0f} target tokens per second, on {_device(evaluate)}."
            )
        )
    if export is None:
        return Section("Speed and size", [*blocks, run.missing("export")])
    rows = [
        [
            precision,
            number(bleu),
            f"{export['tokens_per_second'].get(precision, 0):,.0f}",
            _DEVICES[export["devices"][precision]] if precision in export.get("devices", {}) else "",
            reports.size(_bytes(export, precision)) if _bytes(export, precision) else "",
            export["not_published"].get(precision, "published"),
        ]
        for precision, bleu in export["bleu"].items()
    ]
    columns = ["Precision", "BLEU of dev sentences", "Tokens per second", "Device", "Size", "Status"]
    bundle_bytes = sum(export["bytes"].values())
    about = (
        f"The model has {export['items_out']:,} parameters, and its bundle takes {reports.size(bundle_bytes)}. The "
        f"log-probabilities of PyTorch and ONNX Runtime differ by at most {export['max_difference']:.1e} nats, and "
        f"both found the same beams for {export['identical_beams']:,} of {export['compared_sentences']:,} sentences."
    )
    return Section("Speed and size", [*blocks, Text(about), Table(columns, rows)])


def _device(evaluate: dict[str, Any]) -> str:
    if evaluate.get("device") == "cuda":
        return "a GPU"
    return f"{evaluate['threads']} CPU thread{'s' if evaluate['threads'] > 1 else ''}"


def _bytes(export: dict[str, Any], precision: str) -> int:
    return sum(size for file, size in export["bytes"].items() if file.startswith(f"{precision}/"))


def cost(run: Run) -> Section:
    """Show the time, resources and money that each stage took in this run."""
    summary = run.summary
    rows = [
        [row.name, "run" if row.status == "done" else row.status, _foreseen(run, row.name), *_cells(row.cost)]
        for row in summary.stages
    ]
    rows.append(["all", "", "", *_cells(summary.cost)])
    currency = f"Cost, {summary.currency}" if summary.cost.money is not None else "Cost"
    columns = [
        "Stage",
        "Status",
        "Forecast",
        "Time",
        "Memory",
        "CPU hours",
        "GPU hours",
        "Tokens",
        "GPU energy, Wh",
        currency,
    ]
    about = (
        "Reused stages cost nothing in this run. A CPU hour is one busy core for one hour. Training and translation "
        "count target tokens; encoding counts the tokens of both sides. The forecast was made before the run."
    )
    blocks: list[Block] = [Text(about), Table(columns, rows), *_parts(run)]
    if line := forecasts.compared(summary):
        blocks.append(Text(line))
    if summary.cost.money is None:
        blocks.append(Text("No price is set. Set NMT_GPU_HOUR_PRICE and NMT_CPU_HOUR_PRICE to see the cost in money."))
    if summary.cost.gpu_seconds and summary.cost.energy_watt_hours is None:
        blocks.append(Text("The energy of the GPUs was not measured. Install nvidia-ml-py to measure it."))
    return Section("Cost", blocks)


def _parts(run: Run) -> list[Block]:
    """Return a table of the teachers' translations and of trainings. Empty for a run without synthetic text."""
    rounds = run.summary.rounds
    rows = [[f"Round {each.round}, {each.direction}", *_of_part(part)] for each in rounds for part in each.costs]
    if not rounds and (synthesise := run.report("synthesise")):
        rows = [_of_part(part) for part in part_costs(run.report("train"), synthesise)]
    if not rows:
        return []
    columns = [*(["Model"] if rounds else []), "Part", "Time", "Target tokens"]
    about = "Translation and training take most of the time. These are the figures of the run that did the work."
    return [Text(about), Table(columns, rows, "Translation and training", is_stacked=True)]


def _of_part(part: PartCost) -> list[str]:
    return [part.part, duration(part.seconds), "not counted" if part.tokens is None else f"{part.tokens:,}"]


def _foreseen(run: Run, stage: str) -> str:
    forecast = run.summary.forecast_of(stage)
    return forecasts.time_of(forecast.seconds) if forecast else ""


def _cells(cost: Cost) -> list[str]:
    return [
        duration(cost.seconds),
        reports.size(cost.memory_bytes) if cost.memory_bytes else "",
        number(cost.cpu_seconds / SECONDS_PER_HOUR, 3),
        number(cost.gpu_seconds / SECONDS_PER_HOUR, 3) if cost.gpu_seconds else "",
        f"{cost.tokens:,}" if cost.tokens else "",
        number(cost.energy_watt_hours),
        reports.money(cost.money),
    ]


def reproduction(run: Run) -> Section:
    """Show the command, the complete recipe and the library versions that reproduce the run."""
    file = run.folder / RECIPE
    command = f"NMT_HOME={shlex.quote(str(run.settings.home))} nmt run {shlex.quote(str(file))}"
    about = (
        "This command makes the same model again and reuses the artifacts that still exist. On another machine, save "
        f"the recipe below as {RECIPE}, install the versions below and run `nmt run {RECIPE}`. Text files of the "
        "recipe must be at the same paths."
    )
    versions = _versions(run)
    stages = "\n".join(f"{row.name} {row.status} {row.fingerprint}" for row in run.summary.stages)
    blocks: list[Block] = [Text(about), Code(command), Code(recipe_text(run.config), "Complete recipe")]
    blocks.append(Code(stages, "Artifacts"))
    table = Table(["Library", "Version"], [[name, version] for name, version in versions.items()], "Versions")
    return Section("Reproduce this run", [*blocks, table] if versions else blocks)


def recipe_text(config: dict[str, Any]) -> str:
    """Return a configuration as the text of a recipe file."""
    return yaml.safe_dump(config, allow_unicode=True, sort_keys=False, width=100)


def _versions(run: Run) -> dict[str, str]:
    """Return the library versions of the last stage whose artifact still exists."""
    for row in reversed(run.summary.stages):
        if artifact := run.artifact(row.name):
            return artifact.manifest().versions
    return {}
