"""Find the weights that training starts from in place of random ones, and check that they fit.

Weights count by content: the same weights at another path give the same fingerprint. This module does not import torch.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from nmt_core.config import SIDES, ModelConfig, Side, TrainConfig
from nmt_core.errors import DamagedError, StageError
from nmt_core.store.artifacts import MANIFEST, Artifact, fingerprint_of
from nmt_core.store.digests import sha256_of
from nmt_core.tokenizer.extend import Extension, read_extensions
from nmt_core.tokenizer.tokenizer import tokenizer_files
from nmt_core.train.continuing import Continued
from nmt_core.train.weights import CHECKPOINTS, MODEL_FILE, WEIGHTS, Label

_MAY_DIFFER = {"dropout"}  # it does not change the shape of a weight


class Start(BaseModel):
    """Start of a training."""

    model_config = ConfigDict(frozen=True)
    label: Label | None = None
    """Metadata for the files of weights that it writes. None writes none."""
    name: str = ""
    """Name of the initial weights, for display. Empty means random weights."""
    weights: Path | None = None
    """File of the initial weights. None means random weights."""
    checkpoint: Path | None = None
    """Checkpoint whose optimizer moments are taken over. None means that the optimizer starts without moments."""
    extensions: dict[Side, Extension] = {}
    """Extension of the vocabulary of each side for which the initial weights have too few rows. Empty means that they
    have all rows."""
    continued: Continued | None = None
    """Training whose first updates this one takes over. None means that it makes all updates itself."""


def content(config: TrainConfig) -> dict[str, str]:
    """Return `start_from` and `start_optimizer` with hashes of the files that they name.

    Return nothing if the files are missing, which the stage reports as an error.
    """
    place = Path(config.start_from)
    weights = _weights_in(place) if config.start_from else None
    if not weights:
        return {}
    options = {"start_from": _sha256(weights, place)}
    checkpoint = _checkpoint_in(place) if config.start_optimizer == "kept" else None
    if checkpoint:
        files = sorted(file for file in checkpoint.iterdir() if file.is_file())
        options["start_optimizer"] = "kept: " + fingerprint_of({file.name: _sha256(file, place) for file in files})
    return options


def find_start(config: TrainConfig, model: ModelConfig, tokenizer: Artifact) -> Start:
    """Find the weights that `train.start_from` names, and check that they fit this model and vocabulary.

    Raises:
        StageError: the weights do not exist or do not fit, `train.start_optimizer` is `kept` and there are no
            moments, or `train.new_rows_first` is set and there are no new rows.
    """
    label = Label.of(model, tokenizer.path)
    if not config.start_from:
        return Start(label=label)
    place = Path(config.start_from).absolute()  # the processes may have other working folders
    weights = _weights_in(place)
    if not weights:
        raise StageError(
            f"train.start_from={place}: there is no such file, or no weights in this folder: give a file of weights or "
            "an artifact of train or average, as listed by `nmt artifacts ls average`"
        )
    extensions = _extensions(Label.read(weights), label, place, tokenizer)
    if config.new_rows_first and not extensions:
        raise StageError(
            f"train.new_rows_first={config.new_rows_first}: {place} has rows for all pieces of {tokenizer.short}: set "
            "it to 0, or start from the weights whose vocabulary was extended"
        )
    if extensions and config.start_optimizer == "kept":
        raise StageError(
            f"train.start_optimizer=kept: {place} has no moments for the pieces that {tokenizer.short} adds: set "
            "train.start_optimizer to fresh"
        )
    checkpoint = _checkpoint_in(place) if config.start_optimizer == "kept" else None
    if config.start_optimizer == "kept" and not checkpoint:
        raise StageError(
            f"train.start_optimizer=kept: {place} has no moments of the optimizer: set train.start_from to "
            f"{_training_of(place)}, or train.start_optimizer to fresh"
        )
    return Start(label=label, name=_name(weights, place), weights=weights, checkpoint=checkpoint, extensions=extensions)


def _weights_in(place: Path) -> Path | None:
    """Return the file itself, the file of an average, or the last file of a training. None if there is none."""
    if place.is_file():
        return place
    if (place / MODEL_FILE).is_file():
        return place / MODEL_FILE
    files = sorted(file for file in (place / WEIGHTS).glob("*.safetensors") if file.stem.isdigit())
    return files[-1] if files else None


def _checkpoint_in(place: Path) -> Path | None:
    """Return the last checkpoint of a finished training, which has the weights of its last file. None otherwise."""
    indexes = sorted((place / CHECKPOINTS).glob("*/.metadata")) if _artifact(place) else []
    return indexes[-1].parent if indexes else None


def _extensions(weights: Label, training: Label, place: Path, tokenizer: Artifact) -> dict[Side, Extension]:
    """Return the extensions of the vocabularies of the weights, by side. Empty if the vocabularies are the same.

    Sizes are compared first, as they may be why the vocabularies differ.

    Raises:
        StageError: the weights do not fit: the model differs, or a vocabulary that was not extended.
    """
    new, old = (label.model.model_dump(exclude=_MAY_DIFFER) for label in (training, weights))
    if differing := [name for name in new if new[name] != old[name]]:
        differences = ", ".join(f"model.{name}={old[name]}, not {new[name]}" for name in differing)
        remedy = ", ".join(f"model.{name}={old[name]}" for name in differing)
        raise StageError(f"train.start_from={place}: its model has {differences}: set {remedy}")
    files, known = tokenizer_files(tokenizer.path), read_extensions(tokenizer.path)
    extensions: dict[Side, Extension] = {}
    for side, file in zip(SIDES, (files[0], files[-1]), strict=True):
        vocabularies = [getattr(label, f"{side}_vocabulary") for label in (weights, training)]
        if file in known and known[file].sha256 == vocabularies[0]:
            extensions[side] = known[file]
        elif vocabularies[0] != vocabularies[1]:
            raise StageError(
                f"train.start_from={place}: its {side} vocabulary is {vocabularies[0][:12]}, and {tokenizer.short} has "
                f"{vocabularies[1][:12]}: set tokenizer.start_from to the vocabulary of the model (its address "
                "models:/..., tokenizer/FINGERPRINT, or the folder of its bundle)"
            )
    return extensions


def _artifact(place: Path) -> Artifact | None:
    """Return the artifact that this folder is, or is a copy of. None if it has no manifest."""
    return Artifact.at(place) if (place / MANIFEST).is_file() else None


def _sha256(file: Path, place: Path) -> str:
    """Return the hash of a file that a training starts from.

    Raises:
        DamagedError: the file is part of an artifact, and differs from its manifest.
    """
    sha256, artifact = sha256_of(file), _artifact(place)
    known = artifact.manifest().outputs.get(file.relative_to(place).as_posix()) if artifact else None
    if artifact and known and known.sha256 != sha256:
        raise DamagedError(
            f"{file}: its sha256 is {sha256[:12]}, and {known.sha256[:12]} in the manifest of {artifact.short}: run "
            "the recipe that made it again, copy it again, or start from other weights"
        )
    return sha256


def _name(weights: Path, place: Path) -> str:
    artifact = _artifact(place)
    return artifact.short if artifact else f"{weights.name}, sha256 {_sha256(weights, place)[:12]}"


def _training_of(place: Path) -> str:
    """Return the address of the training that has the moments of these weights, as far as it is known."""
    artifact = _artifact(place)
    training = artifact.manifest().inputs.get("train") if artifact else None
    return f"train/{training[:12]}" if training else "the train/FINGERPRINT that they come from"
