"""A profile counts lines by bins, holds no text, and profiles of parts add up to the profile of the whole."""

import random

import polars as pl
import pytest

from nmt_core.drift.profile import EDGES, Profile, bin_of, label_of, merged, of_translations, profile_of, sampled
from nmt_core.spelling import Spelling
from nmt_core.tokenizer.tokenizer import Tokenizer

ENGLISH = Spelling(language="en")
LINES = ["The cat sees a dog.", "THE DOG", "", "나는 학생 이다", "to it 12 and", "Κατι!", "a big house (small)?"]


def test_lines_are_counted_by_their_measures(tiny_tokenizer: Tokenizer) -> None:
    profile = profile_of(LINES, tiny_tokenizer, ENGLISH)
    assert profile.lines == 6, "a line without text is not counted"
    assert profile.categories["script"] == {"Greek": 1, "Hangul": 1, "Latin": 4}
    assert profile.categories["last"] == {
        "exclamation mark": 1, "full stop": 1, "lower case": 1, "other letter": 1, "question mark": 1, "upper case": 1,
    }  # fmt: skip
    assert profile.categories["unknown"] == {"none": 1, "some": 5}, "capitals, digits and Greek have no pieces"
    assert profile.histograms["upper_case"][bin_of("upper_case", 1.0)] == 1
    assert profile.histograms["digits"][bin_of("digits", 0.2)] == 1 and profile.histograms["digits"][0] == 5
    assert profile.histograms["characters"][bin_of("characters", 7)] == 1
    assert sum(profile.histograms["tokens"].values()) == 6
    assert profile.tokens == sum(map(len, tiny_tokenizer.encode([line for line in LINES if line])))
    assert 0 < profile.unknown_token_share < 1


def test_no_text_is_in_a_profile(tiny_tokenizer: Tokenizer) -> None:
    stored = profile_of([*LINES, "xylophone"] * 20, tiny_tokenizer, ENGLISH).model_dump_json()
    assert not [word for line in [*LINES, "xylophone"] for word in line.split() if len(word) > 4 and word in stored]
    assert Profile.model_validate_json(stored).model_dump_json() == stored


def test_profiles_of_parts_add_up_in_any_order(tiny_tokenizer: Tokenizer) -> None:
    draw = random.Random(1)
    lines = [" ".join(draw.choices(" ".join(LINES).split(), k=draw.randrange(1, 30))) for _ in range(64)]
    parts = [profile_of(lines[first : first + 16], tiny_tokenizer, ENGLISH) for first in range(0, 64, 16)]
    whole = profile_of(lines, tiny_tokenizer, ENGLISH)
    assert merged(parts) == merged(parts[::-1]) == whole
    assert merged([]) == Profile() == profile_of([" ", ""], tiny_tokenizer, ENGLISH)
    assert merged(parts).model_dump_json() == merged(parts[::-1]).model_dump_json()


def test_translations_have_scores_and_statuses() -> None:
    profile = of_translations(
        pl.Series([-0.3, None, -7.0], dtype=pl.Float64), pl.Series([4, 0, 9]), pl.Series(["ok", "empty", "ok"])
    )
    assert profile.lines == 0 and profile.categories == {"status": {"empty": 1, "ok": 2}}
    assert profile.histograms["score"] == {0: 1, bin_of("score", -0.3): 1}


def test_a_short_text_is_profiled_whole_and_a_long_one_by_a_seeded_quarter() -> None:
    lines = [str(number) for number in range(4_096)]
    assert sampled(lines[:500], 3, 500) == lines[:500]
    drawn = sampled(lines, 3, 1_000_000)
    assert drawn == sampled(lines, 3, 1_000_000) != sampled(lines, 4, 1_000_000)
    assert 900 < len(drawn) < 1_150
    assert len(sampled(lines[:2_000], 0, 2_000)) > 400


@pytest.mark.parametrize("measure", EDGES)
def test_bins_are_in_order_and_have_names(measure: str) -> None:
    edges = EDGES[measure]
    assert list(edges) == sorted(set(edges))
    assert len({label_of(measure, number) for number in range(len(edges) + 1)}) == len(edges) + 1
    assert bin_of(measure, edges[0]) == 1 and bin_of(measure, edges[-1]) == len(edges)
