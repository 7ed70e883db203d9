"""Find the teachers of synthetic text. They count by the content of their bundles, wherever these are."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nmt_core.bundle.folder import BUNDLE_FILE, read_bundle
from nmt_core.config import OTHER_SIDE, REVERSE, SIDES, LanguagesConfig, PipelineConfig, SyntheticPart
from nmt_core.errors import ArtifactError, ConfigError
from nmt_core.jobs.order import ModelVersion
from nmt_core.store.artifacts import MANIFEST, Artifact, Identity
from nmt_core.store.digests import sha256_of

_OF_CLEAN = {"decontaminate", "ngram_words", "short_ngram_words", "unicode_form", "punctuation"}


@dataclass(frozen=True)
class Teacher:
    """Model that translates."""

    folder: Path
    """Folder of its bundle."""
    name: str
    """Short name of its artifact, or the folder of a bundle that is not in a store."""
    sha256: str
    """SHA-256 of its `config.json`, which holds the hashes of the other files."""
    languages: LanguagesConfig
    """Languages that it translates from and into."""
    to: str = ""
    """Pair of languages that it is asked for. Empty means the only pair of a model for one."""

    @property
    def version(self) -> ModelVersion:
        """Model of a translation job."""
        return ModelVersion(name=self.name, version=self.sha256[:12], sha256=self.sha256)


def identity(config: PipelineConfig) -> Identity:
    """Return the values that decide the synthetic text.

    Teachers count by their content. Of `mix`, only the rules of the synthetic corpora count, and of `clean` only the
    options that are applied here too.
    """
    values = config.synthesis.model_dump(mode="json")
    for part in values["parts"]:
        part["teachers"] = [_content(teacher) for teacher in part["teachers"]]
    names = {part.name for part in config.synthesis.parts}
    rules = [rule.model_dump(mode="json") for rule in config.mix.corpora if rule.corpus in names]
    return {
        "synthesis": values,
        "mix": {"corpora": rules, "seed": config.mix.seed},
        "languages": config.languages.model_dump(mode="json"),
        "clean": config.clean.model_dump(mode="json", include=_OF_CLEAN),
    }


def find_teachers(part: SyntheticPart, place: str, languages: LanguagesConfig) -> list[Teacher]:
    """Find the teachers of a part, and check that they translate in the direction that it needs.

    Args:
        part: synthetic corpus.
        place: place of the part in the recipe, for messages.
        languages: source and target language of the part.

    Raises:
        ConfigError: a model translates between other languages, or is one that only a whole run trains.
        ModelError: a folder is not a bundle.
    """
    of_side = {side: languages.tag(side) for side in SIDES}
    needed = of_side[part.side], of_side[OTHER_SIDE[part.side]]
    found = []
    for address in part.teachers:
        if address == REVERSE:
            raise ConfigError(
                f"{place}.teachers={REVERSE}: only a run of the whole recipe trains this model: start `retrain` or "
                "`nmt run`, or name a model"
            )
        folder = Path(address).absolute()  # workers may have other working folders
        own, pair = read_bundle(folder).languages, ""
        if own.pairs:
            own, pair = _in_pair(own, "-".join(needed), address, place)
        if (own.source, own.target) != (needed[0].partition("_")[0], needed[1].partition("_")[0]):
            raise ConfigError(
                f"{place}.teachers: {address} translates {own.tag('source')} into {own.tag('target')}, but text="
                f"{part.text} needs a model from {needed[0]} into {needed[1]}: name one"
            )
        found.append(Teacher(folder, _name(folder), sha256_of(folder / BUNDLE_FILE), own, pair))
    return found


def _in_pair(languages: LanguagesConfig, pair: str, address: str, place: str) -> tuple[LanguagesConfig, str]:
    """Return the languages and the name of the pair for which a model for many pairs is a teacher.

    Raises:
        ConfigError: the model was not trained on the pair.
    """
    if pair not in languages.pairs:
        raise ConfigError(
            f"{place}.teachers: {address} was trained on {', '.join(languages.pairs)}, but the part needs {pair}: name "
            "a model that was trained on it"
        )
    return languages.of(pair), pair


def _content(address: str) -> str:
    """Return the hash of a bundle, or its address if it is missing, which the stage reports as an error."""
    file = Path(address) / BUNDLE_FILE
    return sha256_of(file) if file.is_file() else address


def _name(folder: Path) -> str:
    if (folder / MANIFEST).is_file():
        with suppress(ArtifactError):
            return Artifact.at(folder).short
    return str(folder)
