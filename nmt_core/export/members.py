"""Find the members of an ensemble: files of weights of one shape and one vocabulary. Imports no torch.

Members count by their content: the same weights at another path give the same bundle.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from nmt_core.config import PipelineConfig
from nmt_core.errors import ArtifactError, ConfigError, StageError
from nmt_core.store.artifacts import MANIFEST, Artifact, Identity
from nmt_core.store.digests import sha256_of
from nmt_core.tokenizer.tokenizer import tokenizer_files
from nmt_core.train.weights import MEMBERS, MODEL_FILE, Label

_MAY_DIFFER = {"dropout"}  # it has no effect on a translation


class Member(BaseModel):
    """Member of an ensemble, as reports name it."""

    model_config = ConfigDict(frozen=True)
    model: str
    """Short name of the artifact of its weights, or the folder or file of weights that are not in a store."""
    checkpoint: str = ""
    """Update of the checkpoint, if several checkpoints of one training are members. Otherwise empty."""
    sha256: str
    """SHA-256 of its weights."""
    is_own: bool = False
    """True if the run that exports the ensemble trained it."""


@dataclass(frozen=True)
class MemberWeights:
    """Weights of a member, and its name."""

    file: Path
    member: Member


def identity(config: PipelineConfig) -> Identity:
    """Return the values that decide the bundle. The weights of further members count by their content."""
    values = {name: getattr(config, name).model_dump(mode="json") for name in ("export", "model", "languages", "clean")}
    if config.export.members:
        values["export"]["members"] = [_content(address) for address in config.export.members]
    return values


def find_members(average: Artifact, config: PipelineConfig, tokenizer: Path) -> list[MemberWeights]:
    """Return the weights of an ensemble: of the run's own model or checkpoints, and of the models that a recipe names.

    The list is empty if the run exports one model.

    Args:
        average: artifact of the run's own weights.
        config: recipe, with the sections `model` and `export`.
        tokenizer: folder of the vocabulary.

    Raises:
        ConfigError: a model has another shape or another vocabulary, or is a member twice.
        StageError: weights are missing or cannot be read.
    """
    if not config.export.members and not (average.path / MEMBERS).is_dir():
        return []
    members, expected = _members_in(average.path, is_own=True), Label.of(config.model, tokenizer)
    for address in config.export.members:
        for weights in _members_in(Path(address).absolute()):
            _require_the_same(Label.read(weights.file), expected, address)
            members.append(weights)
    _require_different([weights.member for weights in members], config.export.members)
    return members


def check_members(config: PipelineConfig) -> None:
    """Check what is known of the members before a run trains anything: their shape, and the vocabulary if it is reused.

    The stage checks all of it again. A model whose weights are missing is left to the stage.

    Args:
        config: recipe, with folders or files in `export.members` and `tokenizer.start_from`.

    Raises:
        ConfigError: a model has another shape or another vocabulary.
        StageError: weights cannot be read.
    """
    folder = Path(config.tokenizer.start_from)
    is_reused = bool(config.tokenizer.start_from) and not config.tokenizer.added_pieces
    is_known = is_reused and (folder / tokenizer_files(folder)[0]).is_file()
    for address in config.export.members:
        for file in _files_in(Path(address)):
            label = Label.read(file)
            expected = Label.of(config.model, folder) if is_known else label.model_copy(update={"model": config.model})
            _require_the_same(label, expected, address)


def _members_in(place: Path, *, is_own: bool = False) -> list[MemberWeights]:
    """Return the members in an artifact or a folder, or the one in a file."""
    files = _files_in(place)
    if not files:
        raise StageError(
            f"export.members={place}: has no weights: give average/FINGERPRINT (`nmt artifacts ls average` lists "
            "them), a registered model, or a folder with model.safetensors"
        )
    return [
        MemberWeights(file, Member(model=_name(place), checkpoint=_update(file), sha256=sha256_of(file), is_own=is_own))
        for file in files
    ]


def _update(file: Path) -> str:
    """Return the update of a checkpoint that is a member, or an empty string for a model."""
    return file.stem.lstrip("0") if file.parent.name == MEMBERS else ""


def _files_in(place: Path) -> list[Path]:
    """Return the files of an ensemble's members, or the file of the model. Empty if there is none."""
    if place.is_file():
        return [place]
    single = [place / MODEL_FILE] if (place / MODEL_FILE).is_file() else []
    return sorted((place / MEMBERS).glob("*.safetensors")) or single


def _content(address: str) -> list[str] | str:
    """Return the hashes of a model's weights, or its address if they are missing, which the stage reports."""
    return [sha256_of(file) for file in _files_in(Path(address))] or address


def _name(place: Path) -> str:
    if (place / MANIFEST).is_file():
        with suppress(ArtifactError):
            return Artifact.at(place).short
    return str(place)


def _require_the_same(label: Label, expected: Label, address: str) -> None:
    """Raise an error if a model cannot be a member.

    Raises:
        ConfigError: its shape or a vocabulary differs.
    """
    ours, other = (one.model.model_dump(exclude=_MAY_DIFFER) for one in (expected, label))
    if differing := [name for name in ours if ours[name] != other[name]]:
        differences = ", ".join(f"model.{name}={other[name]}, not {ours[name]}" for name in differing)
        raise ConfigError(
            f"export.members: {address} has {differences}: the members of an ensemble have one shape; name models that "
            "were trained with this `model` section"
        )
    for side in ("source", "target"):
        theirs, own = (getattr(one, f"{side}_vocabulary") for one in (label, expected))
        if theirs != own:
            raise ConfigError(
                f"export.members: {address} has the {side} vocabulary {theirs[:12]}, and this run {own[:12]}: train "
                "both with one vocabulary, by tokenizer.start_from in one of their recipes"
            )


def _require_different(members: Sequence[Member], addresses: Sequence[str]) -> None:
    """Raise an error if weights are a member twice, which would count them twice.

    Raises:
        ConfigError: two members have the same weights.
    """
    known = dict[str, Member]()
    for member in members:
        if twin := known.get(member.sha256):
            raise ConfigError(
                f"export.members={', '.join(addresses)}: {twin.model} and {member.model} have the same weights "
                f"(sha256 {member.sha256[:12]}): name other models"
            )
        known[member.sha256] = member
