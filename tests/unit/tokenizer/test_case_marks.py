"""Capitals become marks and come back: HOUSE, House and house are the same pieces, and no letter is lost."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt_core.config import PipelineConfig
from nmt_core.search.alignment import words_of_pieces
from nmt_core.stages.stage import Job
from nmt_core.store.artifacts import Artifact
from nmt_core.tokenizer.case_marks import BEGIN, END, MARKS, TITLE, UPPER
from nmt_core.tokenizer.learn import run as learn
from nmt_core.tokenizer.pretokenize import CaseMarks
from nmt_core.tokenizer.tokenizer import UNK_ID, Tokenizers

SHOWN = {TITLE: "T", UPPER: "U", BEGIN: "[", END: "]"}
LETTERS = st.sampled_from("aBcDßẞİıIiǄǅǆΣσςﬁŉ가中.-'’ 1\u0307\u0301<>%s_")


def shown(text: str) -> str:
    return text.translate(str.maketrans({mark: f"‹{name}›" for mark, name in SHOWN.items()}))


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("House and house", "‹T› house and house"),
        ("the USA (Again)", "the ‹U› usa (‹T› again)"),
        ("THE BIG HOUSE!", "‹[› the big house ‹]›!"),
        ("AN iPhone", "‹U› an iPhone"),
        ("I am", "‹T› i am"),
        ("Don't, DON'T", "‹T› don't, ‹U› don't"),
        ("{Name} of <B> at https://Example.org/A", "{Name} of <B> at https://Example.org/A"),
        ("12 가나 中文", "12 가나 中文"),
    ],
)
def test_capitals_are_marks_before_words(line: str, written: str) -> None:
    assert shown(CaseMarks().split(line)) == written
    assert CaseMarks().join(CaseMarks().split(line)) == line


@given(st.text(LETTERS | st.characters(exclude_categories=["Cs", "Co"]), max_size=60))
def test_any_line_comes_back_to_the_letter(line: str) -> None:
    assert CaseMarks(["<BT>"]).join(CaseMarks(["<BT>"]).split(line)) == line


@given(st.text(st.sampled_from([*MARKS, *"aA b. "]), max_size=30))
def test_whatever_a_model_writes_has_no_marks_left(line: str) -> None:
    joined = CaseMarks().join(line)
    assert not any(mark in joined for mark in MARKS)
    assert (
        joined.replace(" ", "").lower()
        == "".join(letter for letter in line if letter.isalpha() or letter == ".").lower()
    )


def test_a_symbol_stays_as_it_is() -> None:
    assert shown(CaseMarks(["<BT>", "NAME"]).split("<BT> NAME is HERE")) == "<BT> NAME is ‹U› here"


def test_text_in_capitals_has_the_pieces_of_other_text(
    tiny: dict[str, Artifact], make_config: Callable[..., PipelineConfig], tmp_path: Path, job: Job
) -> None:
    """Without marks, most pieces of capitals are single letters, or unknown."""
    options: dict[str, Any] = {
        "vocab_size": 700,
        "pretokenize_source": "case_marks",
        "pretokenize_target": "case_marks",
    }
    learn(make_config(tokenizer=options), {"split": tiny["split"]}, tmp_path, job)
    tokenizer = Tokenizers.load(tmp_path).source
    small, (capitals,) = tokenizer.encode(["a red house is here"])[0], tokenizer.encode(["A RED HOUSE IS HERE"])
    assert len(capitals) <= len(small) + 6
    assert [index for index in capitals if index in small and index != UNK_ID]
    assert tokenizer.decode([capitals]) == ["A RED HOUSE IS HERE"] or UNK_ID in capitals


def test_pieces_of_marks_belong_to_the_word_that_they_stand_for() -> None:
    pieces = [f"▁{TITLE}", "▁hou", "se", "▁of", f"▁{BEGIN}", "▁the", "▁big", "▁cat", f"▁{END}", "."]
    assert words_of_pieces(pieces, "House of THE BIG CAT.") == [0, 0, 0, 1, 2, 2, 3, 4, 4, 4]
