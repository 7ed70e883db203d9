"""Schedules of recipes in words, or as cron expressions where words would be wrong."""

import pytest

from flows.deployment.cron import in_words


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("0 3 * * 1", "Mondays at 03:00"),
        ("30 22 * * sun", "Sundays at 22:30"),
        ("5 4 * * 7", "Sundays at 04:05"),
        ("0 3 * * 1,4", "Mondays and Thursdays at 03:00"),
        ("0 3 * * 1,3,5", "Mondays, Wednesdays and Fridays at 03:00"),
        ("15 6 * * 1-5", "Mondays to Fridays at 06:15"),
        ("0 3 * * *", "every day at 03:00"),
        ("0 3 1 * *", "day 1 of each month at 03:00"),
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("20 * * * *", "every hour at minute 20"),
        ("0 */6 * * *", "every 6 hours at minute 0"),
    ],
)
def test_a_usual_cron_is_put_into_words(cron: str, words: str) -> None:
    assert in_words(cron) == words


@pytest.mark.parametrize(
    "cron",
    ["*/7 * * * *", "0 */5 * * *", "0 3 * 2 *", "0 3 1 * 1", "0 3-5 * * *", "0 3 * * 1-3", "0 3 * * 1#2", "@daily", ""],
)
def test_another_cron_stays_as_it_is(cron: str) -> None:
    assert in_words(cron) == cron
