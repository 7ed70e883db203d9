"""A faulty translation has the fault as its status, and on request another translation replaces it."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt_core.config import LanguagesConfig, SearchConfig
from nmt_core.jobs import checks
from nmt_core.jobs.checks import FAULTS, Checker
from nmt_core.translator import Translator

EN_DE = LanguagesConfig(source="en", target="de")
EN_KO = LanguagesConfig(source="en", target="ko")
LONG = "The quick brown fox jumps over the lazy dog near the old river bank."
LANG = "Der schnelle braune Fuchs springt über den faulen Hund am alten Flussufer."
CASES = [
    (LONG, LANG, None),
    (LONG, "", "too_short"),
    (LONG, "Der Fuchs.", "too_short"),
    ("A dog.", f"{LANG} {LANG}", "too_long"),
    (LONG, f"Der schnelle {'Fuchs ' * 14}am Flussufer.", "repeats"),
    ("No, no, no, no, no!", "Nein, nein, nein, nein, nein!", None),
    (LONG, LONG, "copied"),
    ("Debian", "Debian", None),
    ("https://example.org/a b@example.org", "https://example.org/a b@example.org", None),
    (LONG, "Le rapide renard brun saute par-dessus le chien paresseux.", "wrong_language"),
    ("In 2024 there were 15 dogs.", "Im Jahr 2024 gab es 51 Hunde.", None),
    ("In 2024 there were 15 dogs.", "Im Jahr 2023 gab es 15 Hunde.", "numbers_differ"),
    ("Two dogs.", "2 Hunde.", None),
    ("Delete %s in {place}?", "In {place} löschen?", "placeholders_differ"),
    ("Click </b>here</b>, please.", "Bitte hier klicken.", "tags_differ"),
    ("OK", "In Ordnung", None),
]


@pytest.mark.parametrize(("source", "target", "fault"), CASES)
def test_a_fault_is_named(source: str, target: str, fault: str | None) -> None:
    assert Checker(EN_DE).faults([source], [target]) == [fault]


def test_every_fault_has_a_case() -> None:
    assert {fault for *_, fault in CASES if fault} == set(FAULTS)


def test_pairs_are_judged_one_by_one() -> None:
    sources, targets, faults = zip(*CASES, strict=True)
    assert Checker(EN_DE).faults(sources, targets) == list(faults)
    assert Checker(EN_KO).faults([], []) == []


def test_digits_of_another_script_are_the_same_number() -> None:
    assert Checker(LanguagesConfig(source="en", target="ar")).faults(["In 2024"], ["في ٢٠٢٤"]) == [None]


@settings(max_examples=60)
@given(st.lists(st.tuples(st.text(max_size=30), st.text(max_size=30)), max_size=8))
def test_any_text_is_judged(pairs: list[tuple[str, str]]) -> None:
    clean = [tuple(side.encode("utf-8", "replace").decode() for side in pair) for pair in pairs]
    faults = Checker(EN_KO).faults([source for source, _ in clean], [target for _, target in clean])
    assert len(faults) == len(pairs) and set(faults) <= {None, *FAULTS}


SEARCH = SearchConfig(beam_size=4, max_length_offset=30, max_source_tokens=16, batch_tokens=256)
TEXTS = ["the cat sees a dog.", "a big house and", "to it now", "sees a small cat", ""]


def test_another_translation_takes_the_place_of_one_with_a_fault(
    job: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Translator.load(job.bundle, SEARCH.model_copy(update={"n_best": 4})).translate(TEXTS)
    bad = {one.text for one in found if one.status == "ok" and one.alternatives}
    assert bad

    class Strict(Checker):
        def faults(self, sources: Any, translations: Any) -> list[str | None]:
            return ["repeats" if text in bad else None for text in translations]

    monkeypatch.setattr(checks, "checker_for", Strict)  # so small a model makes no fault that another lacks
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    job.run(tmp_path / "in.txt", tmp_path / "marked.parquet", search=SEARCH)
    job.run(tmp_path / "in.txt", tmp_path / "again.parquet", search=SEARCH.model_copy(update={"retry": 4}))
    marked, again = (pl.read_parquet(tmp_path / f"{name}.parquet").to_dicts() for name in ("marked", "again"))
    for one, before, after in zip(found, marked, again, strict=True):
        assert before["translation"] == one.text
        if one.text in bad:
            assert before["status"] == "repeats"
            assert after["translation"] == next(other.text for other in one.alternatives if other.text not in bad)
            assert after["status"] == "ok" and after["score"] == pytest.approx(one.alternatives[0].score, abs=1e-3)
        else:
            assert before == after
    assert marked[-1]["status"] == "empty" and marked[-1]["score"] is None
