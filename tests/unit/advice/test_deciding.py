"""Contents of a suggested recipe: size of the vocabulary and of the model, length of training, and gate."""

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.facts import raises

from nmt_core.advice import decisions, findings, recipe, vocabulary
from nmt_core.advice.decisions import Question, decide
from nmt_core.advice.findings import Corpus, Findings, Sample, Wishes
from nmt_core.advice.machine import Machine
from nmt_core.advice.vocabulary import Vocabulary
from nmt_core.config import PipelineConfig
from nmt_core.errors import ConfigError, NmtError
from nmt_core.models.counts import weights_per_token
from nmt_core.recipes.recipe import load_recipe

LAPTOP = Machine(cores=2, memory=16 * 10**9, gpus=0)
SERVER = Machine(cores=64, memory=256 * 10**9, gpus=1)


def of(pairs: int, languages: tuple[str, str] = ("en", "de"), sample: Sample | None = None) -> Findings:
    corpus = Corpus("train", {"name": "a", "address": "a.tsv"}, pairs, "some")
    return Findings("a", languages, (corpus,), sample, 0.1, ())


def values(found: Findings, machine: Machine, **answers: str) -> dict[str, Any]:
    """Return the values of a recipe by option, after some answers."""

    def ask(question: Question) -> str:
        return answers.get(question.key.rpartition(".")[2], question.default)

    parts = decide(found, machine, ask)
    assert all(line.reason.strip() for part in parts for line in part.lines), "each line has its reason"
    PipelineConfig.model_validate(
        {"name": "a", "corpus": {"train": ["a.tsv"]}}
        | {part.name: {line.key: line.value for line in part.lines} for part in parts}
    )
    return {f"{part.name}.{line.key}": line.value for part in parts for line in part.lines}


@pytest.mark.parametrize(
    ("pairs", "machine", "vocab", "d_model", "dropout", "tokens"),
    [
        (3_000, LAPTOP, 500, 128, 0.3, 2_048),
        (29_000, LAPTOP, 2_000, 128, 0.3, 4_096),
        (29_000, SERVER, 2_000, 128, 0.3, 4_096),
        (100_000, SERVER, 4_000, 256, 0.3, 4_096),
        (200_000, SERVER, 8_000, 512, 0.3, 8_192),
        (4_500_000, SERVER, 32_000, 512, 0.1, 25_000),
        (50_000_000, SERVER, 32_000, 1_024, 0.1, 25_000),
        (4_500_000, LAPTOP, 32_000, 128, 0.1, 4_096),
    ],
)
def test_sizes_follow_from_the_text_and_the_machine(
    pairs: int, machine: Machine, vocab: int, d_model: int, dropout: float, tokens: int
) -> None:
    made = values(of(pairs), machine)
    assert made["tokenizer.vocab_size"] == vocab
    assert made["model.d_model"] == d_model
    assert made["model.dropout"] == dropout
    assert made["train.max_tokens"] == tokens
    assert ("train.batching" in made) == bool(machine.gpus)


def test_training_is_as_long_as_in_the_recipes_of_the_package() -> None:
    """The text of multi30k-en-de and of wmt14-en-de-base is read about as often as by these recipes."""
    lengths = {29_000: 4_096 * 7_000 / 29_000, 4_500_000: 25_000 * 100_000 / 4_500_000}
    for pairs, of_package in lengths.items():
        made = values(of(pairs), SERVER, hours="10000")
        of_advice = made["train.max_updates"] * made["train.max_tokens"] / pairs
        assert 0.5 < of_advice / of_package < 2.5, pairs
    small = load_recipe("multi30k-en-de")
    made = values(of(29_000), LAPTOP)
    assert (made["model.d_model"], made["model.d_ff"], made["model.encoder_layers"]) == (
        small.model.d_model,
        small.model.d_ff,
        small.model.encoder_layers,
    )
    peaks = [
        scale * (model_width * warmup) ** -0.5
        for scale, model_width, warmup in (
            (small.train.learning_rate_scale, small.model.d_model, small.train.warmup_updates),
            (made["train.learning_rate_scale"], made["model.d_model"], made["train.warmup_updates"]),
        )
    ]
    assert 0.8 < peaks[1] / peaks[0] < 1.25


def test_less_time_makes_a_smaller_model_and_then_a_shorter_training() -> None:
    long, short = (values(of(600_000), LAPTOP, hours=hours) for hours in ("2000", "1"))
    assert long["model.d_model"] > short["model.d_model"] == 128
    assert short["train.max_updates"] < values(of(600_000), LAPTOP, hours="20")["train.max_updates"]
    reason = next(
        line.reason
        for part in decide(of(600_000), LAPTOP)
        for line in part.lines
        if (part.name, line.key) == ("model", "d_model")
    )
    assert "2 cores" in reason
    assert "medium" in reason


def test_a_forecast_grows_with_the_model_and_shrinks_with_the_machine() -> None:
    weights = [sum(weights_per_token(size.model, 8_000)) for size in decisions.SIZES]
    assert weights == sorted(weights)
    # The record of the benchmarks: 256 wide, 3 + 3 layers, two cores, fp32, 4,116 tokens a second.
    small = next(size for size in decisions.SIZES if size.name == "small").model
    measured = sum(weights_per_token(small.model_copy(update={"encoder_layers": 3, "decoder_layers": 3}), 8_000))
    assert 0.5 < LAPTOP.hours(measured, 4_116 * 3_600) < 2
    assert LAPTOP.hours(10**7, 10**9) > SERVER.hours(10**7, 10**9)


def test_held_out_text_is_a_small_part_of_small_text() -> None:
    assert values(of(2_000), LAPTOP)["split.dev_pairs"] == 100
    assert values(of(100_000), LAPTOP)["split.test_pairs"] == 1_000
    assert values(of(5_000_000), SERVER)["split.test_pairs"] == 2_000


def sampled(source: list[str], target: list[str], **changes: Any) -> Sample:
    known: dict[str, Any] = {
        "kept": pl.DataFrame({"source": source, "target": target}),
        "judged": len(source),
        "read": len(source),
        "is_whole": True,
        "kept_share": 1.0,
        "reasons": {},
        "max_words": 40,
        "length_ratio": 1.0,
        "unusual_ratio": 1.0,
        "marked": {"numbers": 0.1, "addresses": 0.0, "placeholders": 0.0},
        "words_have_spaces": True,
        "shares": ({"en": 1.0}, {"ko": 1.0}),
    }
    return Sample(**(known | changes))


def sentences(letters: str, number: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    words = ["".join(chance.choices(letters, k=chance.randint(2, 7))) for _ in range(300)]
    return [" ".join(chance.choices(words, k=8)) for _ in range(number)]


LATIN, HANGUL = "abcdefghijklmnopqrstuvwxyz", "가나다라마바사아자차카타파하고노도로모보소오조초코토포호"


def test_different_letters_mean_two_vocabularies() -> None:
    english, korean = sentences(LATIN, 600, 1), sentences(HANGUL, 600, 2)
    made = values(of(600, ("en", "ko"), sampled(english, korean)), LAPTOP)
    assert made["tokenizer.vocabularies"] == "separate"
    assert made["model.tied_embeddings"] == "two_way"
    assert made["registry.metric"] == "chrF"
    with_names = [f"{line} {name[:9]}" for line, name in zip(korean, english, strict=True)]
    made = values(of(600, ("en", "ko"), sampled(english, with_names)), LAPTOP)
    assert made["tokenizer.vocabularies"] == "separate"
    made = values(of(600, sample=sampled(english, sentences(LATIN, 600, 3))), LAPTOP)
    assert "tokenizer.vocabularies" not in made
    assert "tokenizer.target_vocab_size" not in made
    assert made["registry.metric"] == "BLEU"


def test_filters_are_changed_only_where_the_text_needs_it() -> None:
    english = sentences(LATIN, 200, 1)
    usual = values(of(200, sample=sampled(english, english)), LAPTOP)
    assert not [key for key in usual if key.startswith("clean.")]
    long = values(of(200, sample=sampled(english, english, max_words=310, unusual_ratio=2.0, length_ratio=1.9)), LAPTOP)
    assert long["clean.max_words"] == 350
    assert long["clean.max_characters"] == 3_500
    assert long["clean.expected_length_ratio"] == 1.9
    assert "clean.shard_pairs" in values(of(1_000_000), Machine(cores=32, memory=16 * 10**9, gpus=0))
    assert "clean.shard_pairs" not in values(of(1_000_000), LAPTOP)


def test_the_gate_asks_for_copies_where_the_text_teaches_them() -> None:
    english = sentences(LATIN, 200, 1)
    rich = sampled(english, english, marked={"numbers": 0.2, "addresses": 0.05, "placeholders": 0.05})
    assert "registry.built_in_sentences" not in values(of(1_000_000, sample=rich), SERVER)
    assert values(of(20_000, sample=rich), SERVER)["registry.built_in_sentences"] == "no_worse"
    assert values(of(1_000_000), SERVER)["registry.built_in_sentences"] == "no_worse"


def test_more_text_makes_a_larger_vocabulary_of_frequent_pieces() -> None:
    chance = random.Random(4)  # words of any two letters: the longer a piece, the rarer
    lines = [" ".join("".join(chance.choices(LATIN, k=6)) for _ in range(6)) for _ in range(600)]
    found = [vocabulary.by_frequency(lines, factor, 1.0) for factor in (1, 40, 200)]
    sizes = [one.size for one in found]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    for one in found[1:]:
        assert one.frequent is not None
        assert one.frequent >= vocabulary.SHARE
        assert one.lengths is not None
        assert len(one.lengths) == len(lines)


def test_uniform_text_has_a_vocabulary_all_the_same() -> None:
    one = vocabulary.by_frequency(["a a a"] * 50, 1.0, 1.0)
    assert isinstance(one, Vocabulary)
    assert one.size >= 64


@pytest.mark.parametrize(
    ("answers", "facts"),
    [
        ({"vocab_size": "many"}, ("tokenizer.vocab_size", "many", "not a number")),
        ({"vocab_size": "7"}, ("tokenizer.vocab_size", "7", "64 to 256,000")),
        ({"model": "huge"}, ("model", "huge", "tiny, small")),
        ({"max_updates": "1.5"}, ("train.max_updates", "1.5", "whole number")),
        ({"hours": "0"}, ("hours", "0.1")),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(answers: dict[str, str], facts: tuple[str, ...]) -> None:
    with raises(ConfigError, *facts):
        values(of(29_000), LAPTOP, **answers)


def test_answers_decide() -> None:
    answers = {"vocab_size": "6,000", "model": "base", "max_updates": "500", "patience": "0", "metric": "chrF"}
    made = values(of(29_000), LAPTOP, **answers, dev_pairs="77")
    assert made["tokenizer.vocab_size"] == 6_000
    assert made["model.d_model"] == 512
    assert made["train.max_updates"] == 500
    assert made["train.patience"] == 0
    assert made["registry.metric"] == "chrF"
    assert made["split.dev_pairs"] == 77


def test_each_line_of_a_recipe_is_below_its_reason() -> None:
    found = of(29_000)
    text = recipe.rendered(found, decide(found, LAPTOP), ["Written by a test"])
    rows = text.splitlines()
    keys = [
        number for number, row in enumerate(rows) if row.startswith("  ") and not row.lstrip().startswith(("#", "-"))
    ]
    assert len(keys) > 20
    assert [rows[number] for number in keys if not rows[number - 1].lstrip().startswith("#")] == []


def test_a_recipe_is_never_overwritten_by_accident(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    recipe.write(path, "one", force=False)
    with raises(ConfigError, "a.yaml", "exists already", "--force"):
        recipe.write(path, "two", force=False)
    assert path.read_text() == "one"
    recipe.write(path, "two", force=True)
    assert path.read_text() == "two"
    with raises(ConfigError, "a.txt", ".yaml"):
        recipe.require_free(tmp_path / "a.txt", force=True)
    with raises(ConfigError, "nowhere", "--output"):
        recipe.write(tmp_path / "nowhere" / "a.yaml", "x", force=False)


WORDS = st.sampled_from(
    ["the", "red house", "das Haus", "집", "%s", "http://a.b", "", "\t", "#", "'", '"', "{x: 1}", "7", "🙂"]
)
SENTENCE = st.lists(WORDS, max_size=6).map(" ".join)


@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    rows=st.lists(st.tuples(SENTENCE, SENTENCE), max_size=12),
    name=st.sampled_from(["a.tsv", "b c.csv", "c.txt", "d#e.jsonl", "가.po", "test.tsv"]),
    pair=st.sampled_from([None, ("en", "de"), ("en", "ko")]),
)
def test_any_small_text_gives_a_recipe_that_loads_or_one_line_of_error(
    rows: list[tuple[str, str]], name: str, pair: tuple[str, str] | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / name).write_text("".join(f"{a}\t{b}\n" for a, b in rows * 3), encoding="utf-8")
    try:
        found = findings.look([str(folder / name)], Wishes(languages=pair), least_pairs=1)
        text = recipe.rendered(found, decide(found, LAPTOP), ["By a test"])
    except NmtError as error:
        assert "\n" not in str(error)
        return
    recipe.write(folder / "made.yaml", text, force=False)
    assert load_recipe(str(folder / "made.yaml")).corpus.train
