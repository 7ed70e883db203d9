"""Each change does what its name says, on both sides where it must, and leaves alone what belongs to no language."""

import random
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt_core.augmentation.changes import CHANGES
from nmt_core.augmentation.draw import Draw
from nmt_core.augmentation.keyboards import neighbours_of
from nmt_core.augmentation.marks import EMOJI
from nmt_core.config import Change
from nmt_core.text.inline import INLINE

Changer = Callable[..., tuple[str, str]]

SEEDS = range(30)
KEEPING = "Visit https://example.org/Path?a=1 or {name}, <a href='X'>see</a> %1$s."
SOURCE_ONLY: tuple[Change, ...] = ("lower_case", "typos", "ocr", "punctuation", "spaces", "no_diacritics")
TEXTS = st.text(
    st.sampled_from("aäßİiıΆéñ중国ไ12%s{}<b> .,!?…。👍🏽\u200d\u0301'\u05d0\u0627😀")
    | st.characters(exclude_categories=["Cs"]),
    min_size=1,
    max_size=40,
)


def test_every_name_of_a_recipe_has_its_change() -> None:
    assert set(CHANGES) == set(get_args(Change))


@given(TEXTS, TEXTS, st.sampled_from(get_args(Change)), st.integers(0, 99))
def test_any_text_can_be_changed_and_the_same_draw_changes_it_alike(
    source: str, target: str, name: Change, seed: int
) -> None:
    draws = [Draw(random.Random(seed), ("en", "ko"), 2.0, [("a b.", "c d.")]) for _ in range(2)]
    first, second = (CHANGES[name]((source, target), draw) for draw in draws)
    assert first == second
    if name in SOURCE_ONLY:
        assert first[1] == target


@pytest.mark.parametrize("name", (*SOURCE_ONLY, "upper_case", "title_case"))
def test_addresses_tags_and_placeholders_stay(name: Change, change: Changer) -> None:
    kept = [match[0] for match in INLINE.finditer(KEEPING)]
    assert kept == ["https://example.org/Path?a=1", "{name}", "<a href='X'>", "</a>", "%1$s"]
    for seed in SEEDS:
        source, _ = change(name, KEEPING, "x", seed=seed)
        assert [match[0] for match in INLINE.finditer(source)] == kept


@pytest.mark.parametrize(
    ("language", "text", "capitals"),
    [
        ("de", "straße", "STRASSE"),
        ("tr", "ışık için", "IŞIK İÇİN"),
        ("el", "Καλημέρα προϊόν", "ΚΑΛΗΜΕΡΑ ΠΡΟΪΟΝ"),
        ("ko", "나는", "나는"),
    ],
)
def test_capitals_are_the_ones_of_the_language(language: str, text: str, capitals: str, change: Changer) -> None:
    assert change("upper_case", text, text, languages=(language, "en"))[0] == capitals


def test_capitals_and_titles_are_on_both_sides(change: Changer) -> None:
    assert change("upper_case", "a red house", "ein rotes Haus") == ("A RED HOUSE", "EIN ROTES HAUS")
    assert change("title_case", "don't stop", "hör nicht auf") == ("Don't Stop", "Hör Nicht Auf")
    assert change("lower_case", "I am Ann", "Ich bin Ann") == ("i am ann", "Ich bin Ann")


def test_diacritics_go_where_they_are_marks_and_not_letters(change: Changer) -> None:
    assert change("no_diacritics", "Ça va où, Łódź, Ænima", "x", languages=("fr", "en"))[0] == "Ca va ou, Lodz, Ænima"
    assert change("no_diacritics", "мой ёж", "x", languages=("ru", "en"))[0] == "мой ёж", "й and ё are letters"
    assert change("no_diacritics", "हिन्दी 한국", "x", languages=("hi", "en"))[0] == "हिन्दी 한국"


def test_a_typing_error_is_at_most_a_letter_from_the_text(change: Changer) -> None:
    text = "the quick brown fox"
    found = {change("typos", text, "x", seed=seed)[0] for seed in SEEDS}
    assert len(found) > len(SEEDS) / 2
    assert text not in found
    for changed in found:
        missing, added = (set(a) - set(b) for a, b in ((text, changed), (changed, text)))
        assert abs(len(changed) - len(text)) <= 1
        assert len(missing) <= 1
        assert all(letter in "".join(neighbours_of(other, "en") for other in text) for letter in added)


def test_keys_beside_each_other_depend_on_the_language() -> None:
    assert "z" in neighbours_of("t", "de")
    assert "y" in neighbours_of("t", "en")
    assert "a" in neighbours_of("z", "fr")
    assert neighbours_of("Ф", "ru") == neighbours_of("ф", "ru").upper() != ""
    assert neighbours_of("가", "ko") == ""


def test_words_that_are_not_typed_letter_by_letter_have_no_typing_errors(change: Changer) -> None:
    assert all(
        change("typos", "我是学生。", "x", languages=("zh", "en"), seed=seed)[0] == "我是学生。" for seed in SEEDS
    )


def test_marks_are_missing_or_doubled_but_not_in_numbers(change: Changer) -> None:
    found = {change("punctuation", "Pay 3.50, now!", "x", seed=seed)[0] for seed in SEEDS}
    assert found <= {f"Pay 3.50{comma} now{end}" for comma in ("", ",", ",,") for end in ("", "!", "!!")}
    assert len(found) > 3


def test_spaces_are_missing_or_misplaced_and_no_letter_is_lost(change: Changer) -> None:
    text = "the old house"
    found = {change("spaces", text, "x", seed=seed)[0] for seed in SEEDS}
    assert "theold house" in found
    assert "th eold house" in found
    assert all(one.replace(" ", "") == "theoldhouse" for one in found)


@pytest.mark.parametrize("name", ["emoji", "placeholders", "tags", "numbers"])
def test_what_is_put_in_is_the_same_on_both_sides(name: Change, change: Changer) -> None:
    """Apart from what is put in, and from the word that a placeholder replaces, both sides are as before."""
    for seed in SEEDS:
        source, target = change(name, "In 2019 Paris was hot.", "2019 war Paris heiß.", seed=seed)
        added = [re.findall(r"\S+", text) for text in (source, target)]
        only = [
            {part.strip(".") for part in side} - {"In", "2019", "Paris", "was", "hot", "war", "heiß", ""}
            for side in added
        ]
        if name in ("emoji", "numbers"):
            assert only[0] == only[1] != set()
        else:
            assert INLINE.findall(source) == INLINE.findall(target) != []


def test_emoji_are_whole(change: Changer) -> None:
    for seed in SEEDS:
        source, _ = change("emoji", "a", "b", seed=seed)
        added = source.replace("a", "").strip()
        while added:
            longest = max((one for one in EMOJI if added.startswith(one)), key=len)
            added = added.removeprefix(longest)
    assert all(unicodedata.is_normalized("NFC", one) for one in EMOJI)


def test_a_number_that_only_one_side_has_stays(change: Changer) -> None:
    assert change("numbers", "at 5 pm", "um 17 Uhr") == ("at 5 pm", "um 17 Uhr")
    source, target = change("numbers", "007 costs 3.50", "007 kostet 3.50")
    assert re.fullmatch(r"0\d\d costs [1-9]\.\d\d", source)
    assert [part for part in source.split() if part[0].isdigit()] == [
        part for part in target.split() if part[0].isdigit()
    ]


def test_tags_are_around_what_is_the_same_on_both_sides(change: Changer) -> None:
    for seed in SEEDS:
        source, target = change("tags", "I love Paris", "Ich liebe Paris", seed=seed)
        inside = [re.search(r">(.*)</", text) for text in (source, target)]
        assert [match and match[1] for match in inside] in (["Paris", "Paris"], ["I love Paris", "Ich liebe Paris"])


def test_merged_pairs_have_spaces_where_their_script_has(change: Changer) -> None:
    others = [("B.", "乙。"), ("C.", "丙。")]
    found = {change("merge", "A.", "甲。", languages=("en", "zh"), others=others, seed=seed) for seed in SEEDS}
    assert found == {("A. B.", "甲。乙。"), ("A. B. C.", "甲。乙。丙。")}
    assert change("merge", "A.", "甲。") == ("A.", "甲。"), "the last pair of a text has no other"


def test_a_pair_is_split_only_where_both_sides_agree(change: Changer) -> None:
    both = ("Where is he? He is there.", "Wo ist er? Er ist da.")
    found = {change("split", *both, seed=seed) for seed in SEEDS}
    assert found == {("Where is he?", "Wo ist er?"), ("He is there.", "Er ist da.")}
    assert change("split", "Where is he? He is there.", "Wo ist er?") == ("Where is he? He is there.", "Wo ist er?")


def test_the_examples_of_the_documentation_are_changes_that_are_made(change: Changer) -> None:
    page = (Path(__file__).parents[3] / "docs/how-to/rough-input.md").read_text(encoding="utf-8")
    examples = re.findall(r"^\| `(\w+)` \| (?:both|source) \| `(.+)` \| `(.+)` \|$", page, re.MULTILINE)
    assert {name for name, *_ in examples} == set(CHANGES)
    for name, before, after in examples:
        made = (change(name, before, before, others=[("A dog.", "A dog.")], seed=seed)[0] for seed in range(5_000))
        assert after in made, name
