"""The profile of the training text, which `export` stores in the bundle."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from nmt_core.bundle.folder import check_files, read_bundle
from nmt_core.config import LanguagesConfig
from nmt_core.drift.profile import Profile, merged, profile_of
from nmt_core.errors import ModelError
from nmt_core.spelling import Spelling
from nmt_core.tokenizer.sample import Sample, count_pairs, text_shards
from nmt_core.tokenizer.tokenizer import Tokenizer

PROFILE_FILE = "profile.json"
"""File of a bundle with the profile of the training text's source side."""
PROFILE_FILES = "profile*.json"
"""Pattern of all files of a bundle with profiles, see `profile_file`."""

_LINES = 20_000
_SEED = 1


def profile_file(pair: str) -> str:
    """Return the name of the file with the profile of a pair of languages. Empty means all text of the model."""
    return f"profile-{pair}.json" if pair else PROFILE_FILE


def write_training_profiles(
    split: Path, tokenizer: Tokenizer, spelling: Spelling, languages: LanguagesConfig, folder: Path
) -> None:
    """Profile a sample of about 20,000 lines of the training text's source side.

    Tags such as `<BT>` that begin a line (`mix.corpora`) are no text of users, and are left out. A model for many pairs
    of languages gets a profile of each pair, because a job in one language is unlike the text in all of them.

    Args:
        split: folder of the artifact `split`.
        tokenizer: source tokenizer of the model.
        spelling: spelling of the source side, in the language of the main pair.
        languages: languages of the model.
        folder: folder of the bundle, which gets the files `profile_file`.
    """
    shards = text_shards(split)
    rows = sum(map(count_pairs, shards))
    sample = Sample(shards, min(1.0, _LINES / max(rows, 1)), _SEED)
    lines = without_tags(list(sample.lines("source")), tokenizer)
    if not languages.pairs:
        _write(profile_of(lines, tokenizer, spelling), folder / PROFILE_FILE)
        return
    by_pair: dict[str, list[str]] = {pair: [] for pair in languages.pairs}
    for pair, line in zip(sample.lines("pair"), lines, strict=True):
        by_pair[pair].append(line)
    profiles = {
        pair: profile_of(own, tokenizer, spelling._replace(language=languages.of(pair).source))
        for pair, own in by_pair.items()
    }
    for pair, profile in {"": merged(profiles.values()), **profiles}.items():
        _write(profile, folder / profile_file(pair))


def _write(profile: Profile, file: Path) -> None:
    file.write_text(profile.model_dump_json(), encoding="utf-8")


def without_tags(lines: Sequence[str], tokenizer: Tokenizer) -> list[str]:
    """Return lines without the tag at their beginning: a word in angle brackets that the vocabulary has as a piece."""
    firsts = [line.partition(" ")[0] for line in lines]
    words = sorted({first for first in firsts if first.startswith("<") and first.endswith(">")})
    tags = {
        word
        for word, ids in zip(words, tokenizer.encode(words), strict=True)
        if word in {tokenizer.piece(index) for index in ids}
    }
    return [line.partition(" ")[2] if first in tags else line for line, first in zip(lines, firsts, strict=True)]


def read_training_profile(folder: Path, pair: str = "") -> Profile | None:
    """Return the profile of a bundle's training text, or None if the bundle is of a version that had none.

    Args:
        folder: folder of the bundle.
        pair: pair of languages of a model for many. Empty means all text of the model.

    Raises:
        ModelError: the file is missing or damaged.
    """
    bundle, name = read_bundle(folder), profile_file(pair)
    if name not in bundle.sha256:
        return None
    check_files(folder, bundle, [name])
    try:
        return Profile.model_validate_json((folder / name).read_bytes())
    except ValidationError:
        raise ModelError(
            f"{folder / name}: was written by another version of this program: export the model again"
        ) from None
