"""What the run took, how fast and how large the model is, and how to make it again."""

import shlex
from typing import Any

import yaml

from flows.display import reports
from flows.html_report.blocks import Block, Code, Run, Section, Table, Text, duration, money, number
from flows.runs.cost import Cost

RECIPE = "recipe.yaml"
"""The whole configuration of a run, in its folder."""

_HOUR = 3_600
_DEVICES = {"cpu": "CPU", "cuda": "GPU"}


def speed_and_size(run: Run) -> Section:
    """Of the exported model."""
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
    columns = ["Precision", "BLEU of dev sentences", "Tokens per second", "Device", "Size", ""]
    whole = sum(export["bytes"].values())
    said = (
        f"{export['items_out']:,} parameters; the bundle takes {reports.size(whole)}. PyTorch and ONNX Runtime "
        f"differ by at most {export['max_difference']:.1e} nats, and gave the same translation of "
        f"{export['identical_beams']:,} of {export['compared_sentences']:,} sentences."
    )
    return Section("Speed and size", [*blocks, Text(said), Table(columns, rows)])


def _device(evaluate: dict[str, Any]) -> str:
    if evaluate.get("device") == "cuda":
        return "a GPU"
    return f"{evaluate['threads']} CPU thread{'s' if evaluate['threads'] > 1 else ''}"


def _bytes(export: dict[str, Any], precision: str) -> int:
    return sum(size for file, size in export["bytes"].items() if file.startswith(f"{precision}/"))


def cost(run: Run) -> Section:
    """What each stage took in this run."""
    summary = run.summary
    rows = [[row.name, "run" if row.status == "done" else row.status, *_cells(row.cost)] for row in summary.stages]
    rows.append(["all", "", *_cells(summary.cost)])
    currency = f"Money, {summary.currency}" if summary.cost.money is not None else "Money"
    columns = ["Stage", "", "Time", "CPU hours", "GPU hours", "Tokens", "Energy of GPUs, Wh", currency]
    said = (
        "What was reused took nothing in this run. CPU hours are those of one busy core. Tokens are target tokens that "
        "training learnt from or that were translated, and tokens of both sides that were encoded."
    )
    blocks: list[Block] = [Text(said), Table(columns, rows)]
    if summary.cost.money is None:
        blocks.append(Text("No price is set: NMT_GPU_HOUR_PRICE and NMT_CPU_HOUR_PRICE say what an hour costs."))
    if summary.cost.gpu_seconds and summary.cost.energy_watt_hours is None:
        blocks.append(Text("The GPUs' meters were not read: they tell their energy with nvidia-ml-py installed."))
    return Section("Cost", blocks)


def _cells(cost: Cost) -> list[str]:
    return [
        duration(cost.seconds),
        number(cost.cpu_seconds / _HOUR, 3),
        number(cost.gpu_seconds / _HOUR, 3) if cost.gpu_seconds else "",
        f"{cost.tokens:,}" if cost.tokens else "",
        number(cost.energy_watt_hours),
        money(cost.money),
    ]


def reproduction(run: Run) -> Section:
    """One command, the whole recipe, and the versions."""
    file = run.folder / RECIPE
    command = f"NMT_HOME={shlex.quote(str(run.settings.home))} nmt run {shlex.quote(str(file))}"
    said = (
        "This command makes the same model again, and reuses what is still there. Elsewhere, save the recipe below as "
        f"{RECIPE} and run `nmt run {RECIPE}` with the versions below; text that is files has to be at the same places."
    )
    versions = _versions(run)
    stages = "\n".join(f"{row.name} {row.status} {row.fingerprint}" for row in run.summary.stages)
    blocks: list[Block] = [Text(said), Code(command), Code(recipe_text(run.config), "The whole recipe")]
    blocks.append(Code(stages, "Artifacts"))
    table = Table(["Library", "Version"], [[name, version] for name, version in versions.items()], "Versions")
    return Section("How to make it again", [*blocks, table] if versions else blocks)


def recipe_text(config: dict[str, Any]) -> str:
    """A configuration as the file of a recipe."""
    return yaml.safe_dump(config, allow_unicode=True, sort_keys=False, width=100)


def _versions(run: Run) -> dict[str, str]:
    """Those of the last stage of which there is an artifact."""
    for row in reversed(run.summary.stages):
        if found := run.artifact(row.name):
            return found.manifest().versions
    return {}
