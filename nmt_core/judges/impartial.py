"""Find judges that are not impartial: metrics by which the training text or the translations were chosen."""

import shlex
from collections.abc import Iterator

from nmt_core.config import PipelineConfig

_OPTION = "-"


def partial_judges(config: PipelineConfig) -> list[str]:
    """Return a sentence for each metric of a recipe that favours its model, with the reason and the remedy.

    A program counts as the same if two commands name the same model, script or checkpoint. Versions of one model under
    two names are not recognised.
    """
    filters = [rule.command for rule in config.clean.scores if rule.command]
    found = []
    for metric in config.evaluate.metrics:
        own = _marks(metric.command, metric.checkpoint) if metric.command else set()
        for command in filters:
            if shared := own & _marks(command):
                found.append(
                    f"{metric.name} judges the translations, and `{command}` of clean.scores, with the same "
                    f"{min(shared)}, chose the training text: its score favours this model, so compare models by "
                    "another metric as well"
                )
    chosen_by, gate = config.train.dev_metric, config.registry.metric
    if config.train.stop_on == "dev_metric" and chosen_by and chosen_by.name == gate:
        found.append(
            f"{gate} judges the translations in the gate, and train.stop_on=dev_metric chose the weights by it: its "
            "score favours this model, so compare models by another metric as well"
        )
    if config.search.rerank == "mbr":
        names = {"chrF", config.registry.metric, *(metric.name for metric in config.evaluate.metrics)}
        judges = " and ".join(sorted(name for name in names if name.startswith("chrF")))
        found.append(
            f"Scores by {judges} favour this model, because search.rerank=mbr chose its translations by chrF: compare "
            "models by another metric as well"
        )
    return [*found, *_of_reranking(config)]


def _of_reranking(config: PipelineConfig) -> Iterator[str]:
    """Yield a sentence about the judge of `search.judge`, and one for each metric that is the same program."""
    if not (judge := config.search.judge):
        return
    marks = _marks(judge.command, judge.checkpoint)
    for metric in config.evaluate.metrics:
        if metric.command and (shared := marks & _marks(metric.command, metric.checkpoint)):
            yield (
                f"{metric.name} judges the translations, and search.judge, with the same {min(shared)}, chose them: "
                "its score favours this model, so compare models by another metric as well"
            )
    yield (
        f"All scores are of translations that {judge.name} (search.judge) chose. The registered model translates "
        "without it: to score what it ships, evaluate with search.rerank=none"
    )


def _marks(command: str, checkpoint: str = "") -> set[str]:
    """Return the words that tell one judge from another: paths and names of models, or else the whole command."""
    words = [word.partition("=")[2] or word for word in shlex.split(command)[1:]]
    paths = {word for word in words if not word.startswith(_OPTION) and ("/" in word or "." in word[1:])}
    return {path for path in paths | {checkpoint} if path and not _is_number(path)} or {command}


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()
