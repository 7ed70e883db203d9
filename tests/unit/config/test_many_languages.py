"""Pairs of languages in a recipe: what they imply, and what is refused with which remedy."""

from typing import Any

import pytest
from pydantic import ValidationError

from nmt_core.config import LanguagesConfig, PipelineConfig
from nmt_core.config.corpus import name_of_set

BOTH = ["en-de", "de-en"]


def corpus(name: str, pairs: Any, **options: Any) -> dict[str, Any]:
    return {"name": name, "source": f"{name}.1", "target": f"{name}.2", "pairs": pairs} | options


def recipe(pairs: Any = (*BOTH, "fr-en"), **sections: Any) -> dict[str, Any]:
    text = {
        "train": [corpus("news", BOTH), corpus("caps", "fr-en")],
        "dev": [corpus("dev", BOTH)],
        "test": [corpus("test", BOTH)],
    }
    return {"name": "many", "languages": {"pairs": pairs}, "corpus": text | sections.pop("corpus", {}), **sections}


def test_the_first_pair_is_the_main_one() -> None:
    languages = LanguagesConfig.model_validate({"pairs": ["zh_Hant-en", "en-zh_Hant", "en-de"]})
    assert (languages.source, languages.source_variant, languages.target) == ("zh", "Hant", "en")
    assert languages.tags == ("<2en>", "<2zh_Hant>", "<2de>")
    assert languages.of("en-zh_Hant").model_dump() == {"source": "en", "target": "zh", "target_variant": "Hant"}
    assert languages.known_pairs == ("zh_Hant-en", "en-zh_Hant", "en-de", "zh_Hant-de")
    assert LanguagesConfig.model_validate(languages.model_dump()) == languages


@pytest.mark.parametrize(
    ("name", "pairs", "names"),
    [
        ("news", BOTH, ["news-en-de", "news-de-en"]),
        ("news-en-de", BOTH, ["news-en-de", "news-de-en"]),
        ("news", ["en-de"], ["news-en-de"]),
    ],
)
def test_each_set_is_named_by_its_pair(name: str, pairs: list[str], names: list[str]) -> None:
    assert [name_of_set(name, pairs, pair) for pair in pairs] == names


def test_a_recipe_for_one_pair_is_stored_as_before() -> None:
    stored = PipelineConfig.model_validate({"name": "one", "corpus": {"train": [corpus("a", ())]}}).model_dump()
    assert stored["languages"] == {"source": "en", "target": "ko"}
    assert "pairs" not in stored["corpus"]["train"][0]
    assert "pairs" not in stored["mix"]


def test_a_recipe_may_name_pairs_for_all_its_text() -> None:
    zero_shot = corpus("unseen", "fr-de", zero_shot=True)
    given = recipe(corpus={"test": [corpus("test", BOTH), zero_shot]}, mix={"pairs": [{"pair": "fr-en", "weight": 2}]})
    config = PipelineConfig.model_validate(given)
    assert config.corpus.train[1].pairs == ("fr-en",)
    assert PipelineConfig.model_validate(config.model_dump()) == config


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        (recipe(corpus={"train": [corpus("news", BOTH)]}), ("languages.pairs has fr-en", "corpus.train", "remove")),
        (recipe(corpus={"dev": [corpus("dev", ())]}), ("corpus.dev.0 (dev)", "names no pair", "en-de, de-en, fr-en")),
        (recipe(corpus={"test": [corpus("t", "fr-de")]}), ("corpus.test.0", "fr-de", "zero_shot to true")),
        (recipe(corpus={"test": [corpus("t", "de-fr", zero_shot=True)]}), ("de-fr", "no model can translate")),
        (recipe(corpus={"test": [corpus("t", "en-de", zero_shot=True)]}), ("zero_shot", "en-de", "remove")),
        (recipe(corpus={"train": [corpus("a", "en-de", zero_shot=True)]}), ("corpus.train.0.zero_shot", "test set")),
        (recipe(corpus={"train": [corpus("a", ["en-de", "en-fr"])]}), ("a pair and its reverse", "[en-de, de-en]")),
        (recipe(corpus={"test": []}), ("corpus.test is empty", "name files")),
        (recipe(corpus={"test": [corpus("t", BOTH), corpus("t-en-de", "en-de")]}), ("'t-en-de'", "another name")),
        (recipe(mix={"pairs": [{"pair": "fr-de"}]}), ("mix.pairs", "fr-de", "languages.pairs")),
        (recipe(mix={"pairs": [{"pair": "en-de"}, {"pair": "en-de"}]}), ("en-de twice", "remove")),
        (recipe(("en-de", "en-de")), ("en-de twice", "remove")),
        (recipe(("en-eng",)), ("en-eng", "'en'")),
        (recipe(("english",)), ("'english'", "as in en-de")),
        (recipe(tokenizer={"pretokenize_source": "moses"}), ("pretokenize_source=moses", "none")),
        (recipe(clean={"in_domain": "news", "scores": [{"scorer": "cross-entropy-difference"}]}), ("clean.in_domain",)),
        (recipe(evaluate={"must_translate": [{"source": "a", "pair": "de-fr"}]}), ("must_translate.0", "de-fr")),
        (recipe((), languages={}), ("corpus.train.0.pairs=en-de", "languages.pairs")),
        (recipe(languages={"tag_side": "target"}), ("tag_side=target", "set pairs")),
        (recipe(languages={"source": "de", "target": "en", "pairs": BOTH}), ("de-en first",)),
        ({"name": "toy", "languages": {"pairs": ["en-ko", "en-de"]}, "corpus": {"toy": {}}}, ("[en-ko, ko-en]",)),
    ],
)
def test_what_does_not_fit_is_refused_with_its_remedy(given: dict[str, Any], facts: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError) as refused:
        PipelineConfig.model_validate(given)
    message = str(refused.value)
    assert all(fact in message for fact in facts), message
