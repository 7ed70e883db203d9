"""Artifacts: folders with a manifest that records how each was made and what it holds.

A manifest may come from a store that other people write to, and its names become paths on this machine. So a manifest
is accepted only if its names are well-formed and its fingerprint is the hash of its identity.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from nmt_core.errors import ArtifactError, words_of
from nmt_core.store.digests import sha256_of

MANIFEST = "manifest.json"
REPORT = "report.json"

Identity = dict[str, Any]

_STAGE = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_FINGERPRINT = re.compile(r"[0-9a-f]{32}")
_LONGEST_NAME = 255


def fingerprint_of(identity: Mapping[str, Any]) -> str:
    """Return the fingerprint of an identity: 128 bits of the sha256 of its canonical JSON, as 32 hexadecimal digits."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def is_name(stage: object, fingerprint: object) -> bool:
    """Return True if both have the form of an artifact's name. Nothing else may become a path in a store."""
    texts = isinstance(stage, str) and isinstance(fingerprint, str)
    return texts and bool(_STAGE.fullmatch(str(stage)) and _FINGERPRINT.fullmatch(str(fingerprint)))


def inner_path(text: str) -> str:
    """Return a path, with / as its separator, if it stays within its folder.

    Raises:
        ValueError: the path is absolute, goes up, or has characters that no file of an artifact has in its name.
    """
    parts = text.split("/")
    if any(part in {"", ".", ".."} or len(part.encode("utf-8", "replace")) > _LONGEST_NAME for part in parts):
        raise ValueError(f"{text[:_LONGEST_NAME]!r} is not a path within a folder")
    if "\\" in text or not text.isprintable():
        raise ValueError(f"{text[:_LONGEST_NAME]!r} has characters that no file of an artifact has in its name")
    return text


InnerPath = Annotated[str, AfterValidator(inner_path)]
"""Path within a folder, checked by `inner_path`."""


class OutputFile(BaseModel):
    """Size and hash of one file of an artifact."""

    model_config = ConfigDict(frozen=True)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    bytes: int = Field(ge=0)


class Manifest(BaseModel):
    """Record of how an artifact was made and what it holds."""

    model_config = ConfigDict(frozen=True)
    stage: str
    fingerprint: str
    identity: Identity
    """Data whose hash is the fingerprint: stage, version, configuration and the fingerprints of the inputs."""
    recipe: str
    outputs: dict[InnerPath, OutputFile]
    """All files, by their path within the artifact."""
    versions: dict[str, str]
    """Versions of Python, of this package and of the libraries that results depend on."""
    seconds: float
    host: str
    created: AwareDatetime

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        inputs = self.identity.get("inputs")
        if not isinstance(inputs, dict) or not all(is_name(*pair) for pair in inputs.items()):
            raise ValueError("its inputs are not names of artifacts")
        if not is_name(self.stage, self.fingerprint) or self.identity.get("stage") != self.stage:
            raise ValueError(f"{self.stage}/{self.fingerprint}"[:_LONGEST_NAME] + " is not the name of its identity")
        if fingerprint_of(self.identity) != self.fingerprint:
            raise ValueError(f"fingerprint {self.fingerprint} is not the hash of its identity")
        if MANIFEST in self.outputs:
            raise ValueError(f"{MANIFEST} is not a file that a stage may write")
        return self

    @property
    def inputs(self) -> dict[str, str]:
        """Fingerprint of each input, by the stage that made it."""
        inputs: dict[str, str] = self.identity["inputs"]
        return inputs

    @property
    def size(self) -> int:
        """Total size of all outputs, in bytes."""
        return sum(file.bytes for file in self.outputs.values())


def parse_manifest(text: bytes, stage: str, fingerprint: str) -> Manifest:
    """Parse the manifest of one artifact.

    Raises:
        ValueError: the text is not a manifest, or belongs to another artifact.
    """
    manifest = Manifest.model_validate_json(text)
    if (manifest.stage, manifest.fingerprint) != (stage, fingerprint):
        raise ValueError(f"it is the manifest of {manifest.stage}/{manifest.fingerprint}")
    return manifest


@dataclass(frozen=True)
class Artifact:
    """Published artifact: its name and its folder."""

    stage: str
    fingerprint: str
    path: Path

    @classmethod
    def at(cls, folder: Path) -> "Artifact":
        """Return the artifact in a folder, which may be in a store or a copy.

        Raises:
            ArtifactError: the manifest is missing or damaged.
        """
        try:
            manifest = Manifest.model_validate_json((folder / MANIFEST).read_bytes())
        except (OSError, ValueError) as error:
            raise ArtifactError(f"{folder / MANIFEST}: not a manifest ({words_of(error)}): copy it again") from None
        return cls(manifest.stage, manifest.fingerprint, folder)

    @property
    def short(self) -> str:
        """Short name: `stage/` and the first digits of the fingerprint. Commands accept it as well."""
        return f"{self.stage}/{self.fingerprint[:12]}"

    def manifest(self) -> Manifest:
        """Read the manifest.

        Raises:
            ArtifactError: the manifest is missing or damaged, or belongs to another artifact.
        """
        file = self.path / MANIFEST
        try:
            return parse_manifest(file.read_bytes(), self.stage, self.fingerprint)
        except (OSError, ValueError) as error:
            raise ArtifactError(
                f"{file}: not the manifest of {self.short} ({words_of(error)}): restore the folder {self.path} from "
                "where it was copied, or run the recipe again, which makes the artifact again"
            ) from None

    def report(self) -> dict[str, Any]:
        """Return the numbers and samples that the stage reported, as plain JSON."""
        report: dict[str, Any] = json.loads((self.path / REPORT).read_text(encoding="utf-8"))
        return report

    def damage(self, *, thorough: bool, anew: bool = False) -> str | None:
        """Return a description of damage to the files or the manifest, or None.

        Args:
            thorough: compare hashes, not only sizes. Files that are unchanged since they were hashed are not read.
            anew: read unchanged files as well.
        """
        try:
            for name, expected in self.manifest().outputs.items():
                file = self.path / name
                if not file.is_file():
                    return f"{file} is missing"
                if file.stat().st_size != expected.bytes:
                    return f"{file} has {file.stat().st_size:,} bytes, not {expected.bytes:,}"
                if thorough and sha256_of(file, anew=anew) != expected.sha256:
                    return f"{file} does not match its sha256 in the manifest"
        except ArtifactError as error:
            return str(error)
        except OSError as error:
            return f"{error.filename or self.path} cannot be read ({error.strerror or error})"
        return None


def describe_outputs(folder: Path) -> dict[str, OutputFile]:
    """Return the hash and size of every file below `folder`, by relative path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    return {
        path.relative_to(folder).as_posix(): OutputFile(sha256=sha256_of(path), bytes=path.stat().st_size)
        for path in files
    }


def now() -> datetime:
    """Return the present time in UTC, to the second."""
    return datetime.now(UTC).replace(microsecond=0)
