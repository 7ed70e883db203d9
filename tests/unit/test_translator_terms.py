"""A translator with a glossary: translations contain the translations of terms, and everything else stays the same."""

from pathlib import Path

import pytest

from nmt_core.config import SearchConfig
from nmt_core.errors import DataError
from nmt_core.search.torch_step import TorchStepper
from nmt_core.terms.glossary import Term
from nmt_core.tokenizer.tokenizer import Tokenizers
from nmt_core.translator import Translator

QUICK = SearchConfig(beam_size=2, max_length_offset=12, max_source_tokens=24, batch_tokens=64)
LINES = [
    "the cat sees a dog.",
    "",
    "나는 학생 이다.",
    "now the big cat",
    "a big house and a small house",
    "to it to it",
]
GLOSSARY = {"cat": "학생", "house": "small dog | big dog", "now": None}


@pytest.fixture(scope="module")
def translator(tiny_bundle: Path) -> Translator:
    return Translator.load(tiny_bundle, QUICK)


@pytest.mark.parametrize(
    "options", [{}, {"beam_size": 1}, {"n_best": 2}, {"method": "sample"}, {"alignments": "words"}], ids=str
)
def test_terms_are_in_the_translations(translator: Translator, options: dict[str, object]) -> None:
    free, found = (translator.translate(LINES, glossary=glossary, **options) for glossary in ((), GLOSSARY))
    assert [one.terms for one in found] == [1, 0, 0, 2, 2, 0]
    assert [one.terms_kept for one in found] == [1, 0, 0, 2, 2, 0]
    for one, other in zip(found, free, strict=True):
        if not one.terms:
            assert one == other or one.status == "empty"
    assert all("학생" in choice.text for choice in found[0].choices)
    assert all("now" in choice.text and "학생" in choice.text for choice in found[3].choices)
    assert found[4].text.count("small dog") + found[4].text.count("big dog") == 2
    assert {found[place].status for place in (0, 3, 4)} == {"ok"}
    if "alignments" in options:
        assert found[0].alignment and found[0].alignment.links
    if options.get("n_best") == 2:
        assert len(found[3].alternatives) == 1


def test_no_glossary_is_the_same_translator_and_the_same_bytes(translator: Translator) -> None:
    assert translator.with_glossary(()) is translator
    with_terms = translator.with_glossary(GLOSSARY)
    assert with_terms is translator.with_glossary(dict(GLOSSARY)) and with_terms.has_terms
    assert with_terms.with_glossary(GLOSSARY) is with_terms
    assert with_terms.with_glossary({}).translate(LINES[:1]) == translator.translate(LINES[:1])
    other = with_terms.with_search(beam_size=3)
    assert other.has_terms and other is with_terms.with_search(beam_size=3)
    assert "학생" in other.translate(LINES[0]).text
    streamed = list(translator.translate_iterable(LINES, glossary=GLOSSARY))
    assert [one.text for one in streamed] == [one.text for one in with_terms.translate(LINES)]
    assert not translator.with_search(beam_size=3).has_terms


def test_a_translation_that_has_the_terms_stays_as_it_is(translator: Translator) -> None:
    for line, free in zip(LINES, translator.translate(LINES), strict=True):
        words = [word for word in free.text.split() if word.isalpha()][:1]
        source = next((word for word in line.split() if line.split().count(word) == 1 and word.isalpha()), None)
        if source and words:
            found = translator.translate(line, glossary={source: words[0]})
            assert (found.text, found.terms_kept) == (free.text, found.terms)
            assert found.score == pytest.approx(free.score, abs=1e-4)


def test_a_term_that_cannot_be_written_is_missing_and_named(translator: Translator) -> None:
    with_terms = translator.with_glossary({"cat": "中", "dog": "house"})
    found = with_terms.translate(LINES[0])
    assert (found.status, found.terms, found.terms_kept) == ("terms_missing", 2, 1)
    assert found.record()["terms_kept"] == 1 and "terms" not in translator.translate(LINES[0]).record()
    [fault] = with_terms.faults_of_terms()
    assert "cat = 中" in fault and "cannot write" in fault
    assert translator.faults_of_terms() == []


def test_terms_of_sentences_of_long_lines_and_of_lines_that_are_cut_at_what_is_unknown(tiny_bundle: Path) -> None:
    search = QUICK.model_copy(update={"copy_unknown": "always", "split_sentences": "always"})
    translator = Translator.load(tiny_bundle, search)
    line = "the cat sees it.\nA dog 中 and the cat " + "and a house " * 3
    found = translator.translate(line, glossary={"cat": "학생", "house": "dog"})
    assert found.terms == 5 and found.terms_kept == 5
    assert found.text.count("학생") >= 2 and "\n" in found.text and "中" in found.text
    kept = translator.translate("the cat sees 中 now", glossary={"中": None})
    assert "中" in kept.text and kept.status in {"partly_unknown", "unfinished"}


def test_a_prefix_and_terms(translator: Translator) -> None:
    [found] = translator.translate(["the cat sees it"], ["now"], glossary={"cat": "house"})
    assert found.text.startswith("now") and "house" in found.text


def test_any_stepper_will_do(tiny_model, tiny_tokenizer, translator: Translator) -> None:
    by_torch = Translator(TorchStepper(tiny_model), Tokenizers(tiny_tokenizer, tiny_tokenizer), QUICK)
    found, expected = (one.translate(LINES, glossary=GLOSSARY) for one in (by_torch, translator))
    assert [one.text for one in found] == [one.text for one in expected]


def test_terms_that_conflict_are_refused(translator: Translator) -> None:
    with pytest.raises(DataError, match="'Cat' has the translation"):
        translator.translate(LINES, glossary=[Term("cat", ("a",)), Term("Cat", ("b",))])
