"""Cron in words, for the forms that recipes usually have."""

import re

_DAYS = ("Sundays", "Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays")
_DAY_NAMES = {day[:3].lower(): day for day in _DAYS}


def in_words(cron: str) -> str:
    """Return the times of a cron in words, such as `Mondays at 03:00`, or the cron itself if it is less simple."""
    fields = cron.split()
    if len(fields) != 5:
        return cron
    minute, hour, day, month, weekday = fields
    days = _days(day, weekday) if month == "*" else None
    if days is None:
        return cron
    if minute.isdigit() and hour.isdigit():
        return f"{days} at {int(hour):02}:{int(minute):02}"
    if days != "every day":
        return cron
    if hour == "*" and minute == "*":
        return "every minute"
    if hour == "*" and minute.isdigit():
        return f"every hour at minute {int(minute)}"
    if hour == "*" and (step := re.fullmatch(r"\*/(\d+)", minute)):
        return f"every {step[1]} minutes" if 60 % int(step[1]) == 0 else cron
    if minute.isdigit() and (step := re.fullmatch(r"\*/(\d+)", hour)) and 24 % int(step[1]) == 0:
        return f"every {step[1]} hours at minute {int(minute)}"
    return cron


def _days(day: str, weekday: str) -> str | None:
    """Return the days in words, or None if they are less simple."""
    if weekday == "*":
        return "every day" if day == "*" else f"day {int(day)} of each month" if day.isdigit() else None
    if day != "*":
        return None
    if weekday.lower() in {"1-5", "mon-fri"}:
        return "Mondays to Fridays"
    names = [
        _DAYS[int(part) % 7] if re.fullmatch("[0-7]", part) else _DAY_NAMES.get(part.lower())
        for part in weekday.split(",")
    ]
    found = [name for name in names if name]
    return _listed(found) if len(found) == len(names) else None


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
