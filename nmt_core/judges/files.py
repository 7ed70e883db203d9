"""Hash the files that the programs of a recipe use, without loading anything that computes scores."""

import glob
import hashlib
from pathlib import Path

from nmt_core.config import Metric, PipelineConfig, SearchConfig, System
from nmt_core.corpus.cleaning.scorers import files_of
from nmt_core.store.artifacts import Identity
from nmt_core.store.digests import sha256_of


def identity(config: PipelineConfig) -> Identity:
    """Return the values that decide the result of `evaluate`. Files of metrics count by their content."""
    values = {name: getattr(config, name).model_dump(mode="json") for name in ("evaluate", "search", "languages")}
    contents = {metric.name: found for metric in config.evaluate.metrics if (found := contents_of(metric))}
    values |= {"metrics": contents} if contents else {}
    values |= {"judge": found} if (found := contents_of_judge(config.search)) else {}
    systems = {system.name: found for system in config.evaluate.systems if (found := contents_of_system(system))}
    for system in values["evaluate"].get("systems", ()):
        system["bundle"] = systems.get(system["name"], {}).get(system["bundle"], system["bundle"])
    return values | ({"systems": systems} if systems else {})


def contents_of_system(system: System) -> dict[str, str]:
    """Return the hashes of the files that the translations of another system come from, by the word that names them."""
    if system.command:
        return files_of(system.command)
    if system.bundle:
        from nmt_core.bundle.folder import BUNDLE_FILE  # loads ONNX Runtime, which plans of other recipes do not need

        file = Path(system.bundle) / BUNDLE_FILE
        return {system.bundle: sha256_of(file)} if file.is_file() else {}
    if not system.file:
        return {}
    file = Path(system.file)
    pattern = glob.escape(str(file.relative_to(file.anchor))).replace("{test_set}", "*")
    return {str(path): sha256_of(path) for path in sorted(Path(file.anchor).glob(pattern)) if path.is_file()}


def contents_of(metric: Metric) -> dict[str, str]:
    """Return the hashes of the files of a metric, by the path or the word that names them."""
    found = files_of(metric.command) if metric.command else {}
    for path in filter(None, (metric.vocabulary, metric.checkpoint)):
        if Path(path).exists():  # a missing file is reported when the metric is computed
            found[path] = sha256_of_content(Path(path))
    return found


def contents_of_judge(search: SearchConfig) -> dict[str, str]:
    """Return the hashes of the files of the program that chooses among candidates. Empty if there is none."""
    if not search.judge:
        return {}
    found, checkpoint = files_of(search.judge.command), search.judge.checkpoint
    if checkpoint and Path(checkpoint).exists():  # a missing file is reported when the program would run
        found[checkpoint] = sha256_of_content(Path(checkpoint))
    return found


def sha256_of_content(path: Path) -> str:
    """Return the sha256 of a file, or of the names and contents of all files in a folder."""
    if path.is_file():
        return sha256_of(path)
    digest = hashlib.sha256()
    for file in sorted(file for file in path.rglob("*") if file.is_file()):
        digest.update(f"{file.relative_to(path).as_posix()}\0{sha256_of(file)}\n".encode())
    return digest.hexdigest()
