"""Profile a job chunk by chunk. The profile of a chunk is published with its translations, in the same file."""

from collections.abc import Iterable
from contextlib import suppress

import polars as pl
import pyarrow as pa

from nmt_core.drift.profile import Profile, merged, of_translations, profile_of, sampled
from nmt_core.jobs.folder import Parts
from nmt_core.jobs.makers import metadata_of
from nmt_core.translator import Translator

PROFILE = "profile"
"""Key of the metadata of a chunk's file."""


def profile_chunk(
    rows: pl.DataFrame, translated: pl.DataFrame, translator: Translator, number: int, all_lines: int
) -> Profile:
    """Return the profile of a chunk: of its text by a sample of lines, and of all its translations.

    Args:
        rows: rows of the chunk (`staging.SCHEMA`). Rows with a fault have no text to profile.
        translated: the same rows, translated.
        translator: the model.
        number: number of the chunk, which determines the sample.
        all_lines: number of lines of the whole job.
    """
    lines = rows.filter(pl.col("fault").is_null())["text"].to_list()
    text = profile_of(sampled(lines, number, all_lines), translator.tokenizers.source, translator.spelling)
    was_read = rows["fault"].is_null()
    done = translated.filter(was_read)
    return merged([text, of_translations(done["score"], done["tokens"], translated["status"])])


def profile_of_job(parts: Parts, numbers: Iterable[int]) -> Profile | None:
    """Return the profile of all chunks, or None if an earlier version translated one of them without a profile.

    It is also None if a chunk is gone because another worker has finished the job, or damaged, which is reported when
    the output is written.
    """
    profiles = []
    for number in numbers:
        content = None
        with suppress(FileNotFoundError, pa.ArrowInvalid):
            content = metadata_of(parts.output(number)).get(PROFILE.encode())
        if content is None:
            return None
        profiles.append(Profile.model_validate_json(content))
    return merged(profiles)
