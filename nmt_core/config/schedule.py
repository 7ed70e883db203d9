"""`schedule`: times at which a recipe runs by itself."""

import re
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator

from nmt_core.config.section import Section, later


def _is_cron(text: str) -> str:
    if text and not re.fullmatch(r"\S+( \S+){4}", text):
        raise ValueError('must be the five fields of cron, as in "0 3 * * 1" for Mondays at three, or empty')
    return text


Cron = Annotated[str, AfterValidator(_is_cron)]


def _is_timezone(name: str) -> str:
    try:
        if name != "UTC":  # valid even where there is no time zone database
            ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("is not a time zone of the IANA database: write UTC, or one such as Asia/Seoul") from None
    return name


class ScheduleConfig(Section):
    """Times at which a recipe runs by itself, once `nmt deploy` has registered it with Prefect.

    They do not change any result.
    """

    cron: Cron = ""
    """Times to retrain, as the five fields of cron: "0 3 * * 1" is Mondays at three. Empty means only on request."""
    watch: Cron = ""
    """Times to check whether the text at the recipe's addresses has changed, as the five fields of cron. New text
    starts a retraining. Empty means never."""
    timezone: Annotated[str, AfterValidator(_is_timezone)] = "UTC"
    """Time zone of `cron` and `watch`, by its name in the IANA database."""
    drifting_jobs: int = later(0, ge=0, le=1_000)
    """Number of translation jobs with drift within seven days after which the recipe is retrained: jobs whose text
    differs from the training text or from earlier jobs. Only flows of Prefect count. 0 means never."""
    overlap: Literal["skip", "queue"] = later("skip")
    """Treatment of a retraining that is due, or started by hand, while another one of the same recipe is running.
    "skip" cancels the new one. "queue" starts it when the other one has ended."""
