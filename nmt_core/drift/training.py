"""The profile of the training text, which `export` stores in the bundle."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from nmt_core.bundle.folder import check_files, read_bundle
from nmt_core.drift.profile import Profile, profile_of
from nmt_core.errors import ModelError
from nmt_core.spelling import Spelling
from nmt_core.tokenizer.sample import Sample, count_pairs, text_shards
from nmt_core.tokenizer.tokenizer import Tokenizer

PROFILE_FILE = "profile.json"
"""File of a bundle with the profile of the training text's source side."""

_LINES = 20_000
_SEED = 1


def write_training_profile(split: Path, tokenizer: Tokenizer, spelling: Spelling, folder: Path) -> None:
    """Profile a sample of about 20,000 lines of the training text's source side.

    Tags such as `<2de>` that begin a line (`mix.corpora`) are no text of users, and are left out.

    Args:
        split: folder of the artifact `split`.
        tokenizer: source tokenizer of the model.
        spelling: spelling of the source side.
        folder: folder of the bundle, which gets the file `PROFILE_FILE`.
    """
    shards = text_shards(split)
    rows = sum(map(count_pairs, shards))
    sample = Sample(shards, min(1.0, _LINES / max(rows, 1)), _SEED)
    lines = without_tags(list(sample.lines("source")), tokenizer)
    profile = profile_of(lines, tokenizer, spelling)
    (folder / PROFILE_FILE).write_text(profile.model_dump_json(), encoding="utf-8")


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


def read_training_profile(folder: Path) -> Profile | None:
    """Return the profile of a bundle's training text, or None if the bundle is of a version that had none.

    Raises:
        ModelError: the file is missing or damaged.
    """
    bundle = read_bundle(folder)
    if PROFILE_FILE not in bundle.sha256:
        return None
    check_files(folder, bundle, [PROFILE_FILE])
    try:
        return Profile.model_validate_json((folder / PROFILE_FILE).read_bytes())
    except ValidationError:
        raise ModelError(
            f"{folder / PROFILE_FILE}: was written by another version of this program: export the model again"
        ) from None
