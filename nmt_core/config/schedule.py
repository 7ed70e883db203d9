"""`schedule`: when a recipe runs by itself."""

import re
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator

from nmt_core.config.section import Section


def _is_cron(text: str) -> str:
    if text and not re.fullmatch(r"\S+( \S+){4}", text):
        raise ValueError('must be the five fields of cron, as in "0 3 * * 1" for Mondays at three, or empty')
    return text


Cron = Annotated[str, AfterValidator(_is_cron)]


def _is_timezone(name: str) -> str:
    try:
        if name != "UTC":  # known everywhere, also where there is no database
            ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("is no time zone of the IANA database: write UTC, or one such as Asia/Seoul") from None
    return name


class ScheduleConfig(Section):
    """When a recipe runs by itself, once `nmt deploy` has told Prefect. It decides nothing of what is made."""

    cron: Cron = ""
    """When to retrain, as five fields of cron: "0 3 * * 1" is Mondays at three; empty: only when asked to."""
    watch: Cron = ""
    """When to look whether the text at the recipe's addresses has changed, in the same form; new text starts a
    retraining. Empty: never."""
    timezone: Annotated[str, AfterValidator(_is_timezone)] = "UTC"
    """Time zone of both, by its name in the IANA database."""
