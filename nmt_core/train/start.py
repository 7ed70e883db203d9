"""What training starts from in place of random weights: which files, whether they fit, and how they are named.

A path decides nothing: the same weights in another place give the same fingerprint. Imports no torch.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from nmt_core.config import ModelConfig, TrainConfig
from nmt_core.errors import DamagedError, StageError
from nmt_core.store.artifacts import MANIFEST, Artifact, fingerprint_of
from nmt_core.store.digests import sha256_of
from nmt_core.train.continuing import Continued
from nmt_core.train.weights import CHECKPOINTS, MODEL_FILE, WEIGHTS, Label

_MAY_DIFFER = {"dropout"}  # it is no size: every weight has its place whatever it is


class Start(BaseModel):
    """How a training starts."""

    model_config = ConfigDict(frozen=True)
    label: Label | None = None
    """What its own files of weights are to say of themselves; None: nothing."""
    name: str = ""
    """What it starts from, for people; empty: random weights, as below."""
    weights: Path | None = None
    checkpoint: Path | None = None
    """Whose moments the optimizer takes over; None: it begins with none."""
    continued: Continued | None = None
    """The training whose updates this one has not repeated; None: it made all of them itself."""


def content(config: TrainConfig) -> dict[str, str]:
    """The two knobs by the content of what they name; nothing, where that is missing: the stage says so."""
    place = Path(config.start_from)
    weights = _weights_in(place) if config.start_from else None
    if not weights:
        return {}
    found = {"start_from": _sha256(weights, place)}
    checkpoint = _checkpoint_in(place) if config.start_optimizer == "kept" else None
    if checkpoint:
        files = sorted(file for file in checkpoint.iterdir() if file.is_file())
        found["start_optimizer"] = "kept: " + fingerprint_of({file.name: _sha256(file, place) for file in files})
    return found


def find_start(config: TrainConfig, model: ModelConfig, tokenizer: Artifact) -> Start:
    """Find what `train.start_from` names, and see that it fits this model and this vocabulary.

    Raises:
        StageError: it is not there or does not fit, or it has no moments and they are to be kept.
    """
    label = Label.of(model, tokenizer.path)
    if not config.start_from:
        return Start(label=label)
    place = Path(config.start_from).absolute()  # the processes may have other working folders
    weights = _weights_in(place)
    if not weights:
        raise StageError(
            f"train.start_from={place}: there is no such file, nor weights in such a folder: give a file of weights or "
            "what train or average has made, such as `nmt artifacts ls average` lists"
        )
    _require_the_same(Label.read(weights), label, place, tokenizer)
    checkpoint = _checkpoint_in(place) if config.start_optimizer == "kept" else None
    if config.start_optimizer == "kept" and not checkpoint:
        raise StageError(
            f"train.start_optimizer=kept: {place} holds no moments of the optimizer: set train.start_from to "
            f"{_training_of(place)}, or train.start_optimizer to fresh"
        )
    return Start(label=label, name=_name(weights, place), weights=weights, checkpoint=checkpoint)


def _weights_in(place: Path) -> Path | None:
    """The file itself, the one of an average, or the last one of a training."""
    if place.is_file():
        return place
    if (place / MODEL_FILE).is_file():
        return place / MODEL_FILE
    found = sorted(file for file in (place / WEIGHTS).glob("*.safetensors") if file.stem.isdigit())
    return found[-1] if found else None


def _checkpoint_in(place: Path) -> Path | None:
    """The last checkpoint of a training that has ended; its weights are those of the last file."""
    found = sorted((place / CHECKPOINTS).glob("*/.metadata")) if _artifact(place) else []
    return found[-1].parent if found else None


def _require_the_same(theirs: Label, ours: Label, place: Path, tokenizer: Artifact) -> None:
    """Raise what keeps the weights from fitting: sizes first, for they may be why the vocabularies differ."""
    wanted, found = (label.model.model_dump(exclude=_MAY_DIFFER) for label in (ours, theirs))
    if differing := [name for name in wanted if wanted[name] != found[name]]:
        these = ", ".join(f"model.{name}={found[name]}, not {wanted[name]}" for name in differing)
        remedy = ", ".join(f"model.{name}={found[name]}" for name in differing)
        raise StageError(f"train.start_from={place}: its model has {these}: set {remedy}")
    for side in ("source", "target"):
        vocabularies = [getattr(label, f"{side}_vocabulary") for label in (theirs, ours)]
        if vocabularies[0] != vocabularies[1]:
            raise StageError(
                f"train.start_from={place}: it was trained with the {side} vocabulary {vocabularies[0][:12]}, and "
                f"{tokenizer.short} is {vocabularies[1][:12]}: set tokenizer.start_from to the vocabulary of that "
                "model (its address models:/..., tokenizer/FINGERPRINT, or the folder of its bundle)"
            )


def _artifact(place: Path) -> Artifact | None:
    """The artifact that this folder is or is a copy of."""
    return Artifact.at(place) if (place / MANIFEST).is_file() else None


def _sha256(file: Path, place: Path) -> str:
    """Return the hash of a file that a training starts from.

    Raises:
        DamagedError: it is part of an artifact, and not what the manifest says.
    """
    found, artifact = sha256_of(file), _artifact(place)
    known = artifact.manifest().outputs.get(file.relative_to(place).as_posix()) if artifact else None
    if artifact and known and known.sha256 != found:
        raise DamagedError(
            f"{file} has another sha256 than the manifest of {artifact.short} says: run the recipe that made it again, "
            "copy it again, or start from something else"
        )
    return found


def _name(weights: Path, place: Path) -> str:
    artifact = _artifact(place)
    return artifact.short if artifact else f"{weights.name}, sha256 {_sha256(weights, place)[:12]}"


def _training_of(place: Path) -> str:
    """Where the moments of these weights are, as far as it is known."""
    artifact = _artifact(place)
    training = artifact.manifest().inputs.get("train") if artifact else None
    return f"train/{training[:12]}" if training else "the train/FINGERPRINT that they come from"
