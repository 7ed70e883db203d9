"""The experiments of the benchmarks: every row can run, and rows differ only in what is compared."""

import argparse
import gzip
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
import yaml

from flows.comparison.contenders import ComparedRun, contenders
from flows.comparison.table import rows
from nmt_core.config import PipelineConfig
from nmt_core.errors import ConfigError
from nmt_core.models.build import build_model
from nmt_core.recipes.recipe import load_recipe
from nmt_core.stages.stage import Job, Resources, SilentReporter
from nmt_core.store.artifacts import Artifact
from nmt_core.tokenizer.learn import run as learn
from nmt_core.tokenizer.tokenizer import Tokenizers
from nmt_core.train.schedule import learning_rate

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from compare import EXPERIMENTS, Experiment, schedule
from compare_joined import corpus_of, write_joined
from compare_tables import BASE, TABLE_3, averages, beside_the_paper
from korean_mixed import PIECES, TEST, TRAIN
from korean_mixed import recipe as recipe_of_mixed
from many_pairs import PAIRS, POOREST, recipe

KOREAN = ("char", "word", "bpe", "unigram", "morphemes")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NMT_HOME", str(tmp_path))


def experiment(name: str, **options: Any) -> Experiment:
    defaults = {
        "updates": None,
        "recipe": "multi30k-en-de",
        "rows": [*"ACDE"],
        "text": Path("text"),
        "pieces": 8_000,
        "home": Path("home"),
    }
    return EXPERIMENTS[name](argparse.Namespace(**defaults | options))


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("updates", [None, 20])
def test_every_row_is_a_recipe(name: str, updates: int | None) -> None:
    found = experiment(name, updates=updates)
    configs = [one.config for one in contenders(found.rows, found.of_all, 1)]
    assert len({config.model_dump_json() for config in configs}) == len(configs) > 2
    assert len({config.train.max_updates for config in configs}) == 1
    assert updates in (None, configs[0].train.max_updates)
    for config in configs:
        train = config.train
        assert train.max_updates // train.checkpoint_every >= train.keep_checkpoints
        assert config.average.strategy != "last" or config.average.checkpoints <= train.keep_checkpoints


def test_neighbours_are_joined_alike_on_both_sides(tmp_path: Path) -> None:
    for part in ("train", "dev", "test_2016"):
        for code in ("en", "de"):
            lines = "".join(f"{code}{number}\n" for number in range(7))
            (tmp_path / f"{part}.{code}.gz").write_bytes(gzip.compress(lines.encode()))
    write_joined(tmp_path, tmp_path / "out")
    [test] = corpus_of(tmp_path / "out")["test"]
    source = Path(test["source"]).read_text().splitlines()
    assert source[:7] == [f"en{number}" for number in range(7)]
    assert source[7:] == ["en0 en1", "en2 en3", "en4 en5", "en0 en1 en2", "en3 en4 en5", "en0 en1 en2 en3",
                          "en0 en1 en2 en3 en4"]  # fmt: skip
    assert [line.replace("de", "en") for line in Path(test["target"]).read_text().splitlines()] == source


def test_rows_of_table_3_match_the_families() -> None:
    assert len(experiment("table3").rows) == 1 + 4 + 7 + 4 + 1
    found = experiment("table3", rows=["B", "F"])
    assert found.rows == [
        "multi30k-en-de",
        "multi30k-en-de+model.key_width=8",
        "multi30k-en-de+model.key_width=16",
        "multi30k-en-de+model.positions=rotary",
    ]
    assert found.seeds == 3


def test_a_variation_goes_the_way_that_the_paper_went() -> None:
    """With `h 8 -> 1`, the smaller model has fewer heads as well."""
    fields = {"h": "num_heads", "d_k": "key_width", "N": "encoder_layers", "d_model": "d_model", "d_ff": "d_ff"}
    changes = [change for change in experiment("table3").of_all if change.startswith("model.")]
    base = load_recipe("multi30k-en-de", changes).model
    for variation in TABLE_3:
        symbol, _, change = variation.published.partition(" ")
        if symbol in {*fields, "dropout"}:
            before, after = map(float, change.split(" → "))
            model = load_recipe("multi30k-en-de", [*changes, *variation.change.split("+")]).model
            now, then = (getattr(each, fields.get(symbol, symbol)) for each in (model, base))
            then = then or base.head_widths[0]
            assert (after > before, after < before) == (now > then, now < then), variation


@pytest.mark.parametrize("updates", [100, 2_000, 7_000])
def test_a_shorter_training_has_a_longer_and_lower_warm_up(updates: int) -> None:
    config = load_recipe("multi30k-en-de")
    shorter = load_recipe("multi30k-en-de", schedule("multi30k-en-de", updates)).train
    warmup = config.train.warmup_updates
    highest = learning_rate(warmup, config.train, config.model.d_model)
    assert shorter.warmup_updates / updates == pytest.approx(2 * warmup / config.train.max_updates, rel=0.03)
    assert learning_rate(shorter.warmup_updates, shorter, config.model.d_model) == pytest.approx(highest / 2, rel=1e-3)
    assert schedule("multi30k-rnn", updates) == [], "a constant rate stays as it is"


def test_models_of_other_contexts_have_about_as_many_parameters() -> None:
    counts = {}
    for one in contenders(experiment("context").rows, [], 1):
        with torch.device("meta"):
            model = build_model(one.config.model, one.config.tokenizer.vocab_size)
        counts[one.label] = sum(parameter.numel() for parameter in model.parameters())
    assert len(counts) == 3
    assert max(counts.values()) <= 1.15 * min(counts.values()), counts


def test_the_korean_recipes_differ_in_the_pieces_of_korean_alone() -> None:
    first, *others = [load_recipe(f"korean-{kind}").model_dump() for kind in KOREAN]
    of_target = {"target_kind", "target_vocab_size", "pretokenize_target"}
    for other in others:
        assert {name for name in first if first[name] != other[name]} == {"name", "description", "tokenizer"}
        ours, theirs = first["tokenizer"], other["tokenizer"]
        assert {name for name in ours if ours[name] != theirs[name]} <= of_target


SYLLABLES = 1_700


def generated(lines: int) -> tuple[list[str], list[str]]:
    """Return made-up words with the letters of English, and with as many Hangul syllables as real text has."""
    draw = random.Random(1)
    syllables = [chr(code) for code in draw.sample(range(0xAC00, 0xD7A4), SYLLABLES)]
    letters = "etaoinshrdlucmfwypvbgk"

    def words(alphabet: Sequence[str], longest: int) -> list[str]:
        return ["".join(draw.choices(alphabet, k=draw.randint(2, longest))) for _ in range(12_000)]

    english, korean = words(letters, 9), [*syllables, *words(syllables, 4)]
    sentences = [(draw.choices(english, k=9), draw.choices(korean, k=7)) for _ in range(lines)]
    targets = [" ".join(target) for _, target in sentences]
    targets[0] = " ".join(syllables)
    return [" ".join(source) for source, _ in sentences], targets


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    folder = tmp_path_factory.mktemp("split")
    source, target = generated(9_000)
    pl.DataFrame({"source": source, "target": target}).write_parquet(folder / "train-00000.parquet")
    return Artifact("split", "0" * 32, folder)


@pytest.mark.parametrize("place", range(len(KOREAN)), ids=KOREAN)
def test_text_of_many_syllables_fits_the_vocabulary_of_each_row(split: Artifact, place: int, tmp_path: Path) -> None:
    found = experiment("korean")
    config = contenders(found.rows, found.of_all, 1)[place].config
    report = learn(config, {"split": split}, tmp_path, Job(SilentReporter(), Resources()))
    assert report.target.known_tokens == report.source.known_tokens == 1
    tokenizers = Tokenizers.load(tmp_path)
    assert tokenizers.source.vocab_size == 8_000
    if KOREAN[place] in ("char", "word"):
        assert SYLLABLES < tokenizers.target.vocab_size < 15_000, "all that there are"
    else:
        assert tokenizers.target.vocab_size == 8_000


def test_the_sizes_of_the_recipes_alone_would_not_fit_such_text(split: Artifact, tmp_path: Path) -> None:
    config = load_recipe("korean-bpe")
    with pytest.raises(ConfigError, match=r"target_vocab_size=1200 .* the characters, bytes and symbols alone need 17"):
        learn(config, {"split": split}, tmp_path, Job(SilentReporter(), Resources()))


def a_run(recipe: str, seed: int, **values: Any) -> ComparedRun:
    return ComparedRun(recipe=recipe, seed=seed, run_id=f"{recipe}-{seed}", status="finished", **values)


def test_each_row_says_which_way_it_goes_there_and_here() -> None:
    variations = {"x": BASE, "x+model.num_heads=1": TABLE_3[0], "x+model.positions=rotary": TABLE_3[-1]}
    perplexities = {"x": (10.0, 10.25), "x+model.num_heads=1": (12.0, 12.75), "x+model.positions=rotary": (9.0, 9.25)}
    bleus = {"x": (20.0, 21.0), "x+model.num_heads=1": (20.0, 21.4), "x+model.positions=rotary": (25.0, 25.5)}
    runs = [
        a_run(recipe, seed, dev_perplexity=perplexities[recipe][seed], dev_bleu=bleus[recipe][seed])
        for seed in (0, 1)
        for recipe in variations
    ]
    _, _, base, heads, rotary = beside_the_paper(rows([*runs, a_run("x", 2)]), variations)
    assert base == "| base | base | 4.92 | 25.8 | 10.12 ± 0.18 | 20.50 ± 0.71 |  |"
    assert heads == (
        "| A model.num_heads=1 | h 8 → 1 | +0.37 (worse) | -0.90 (worse) | +2.25 ± 0.35 (worse) | "
        "+0.20 ± 0.28 (even) | yes, no |"
    )
    assert rotary.endswith("| - | - | - | -1.00 (better) | +4.75 ± 0.35 (better) | - |")
    assert beside_the_paper(rows(runs[1:2]), variations) == [], "without a base there are no differences"


def test_a_row_without_scores_has_dashes() -> None:
    variations = {"x": BASE, "x+model.num_heads=1": TABLE_3[0]}
    runs = [a_run("x", 1, dev_perplexity=10.0, dev_bleu=20.0), a_run("x+model.num_heads=1", 1)]
    assert beside_the_paper(rows(runs), variations)[-1].endswith("| - | - | - |")


def test_averages_are_shown_where_they_are_worse_than_a_checkpoint() -> None:
    runs = [
        a_run("x", 1, averaged_dev_perplexity=12.0, best_single_dev_perplexity=10.0, weights="best alone"),
        a_run("x", 2, averaged_dev_perplexity=10.0, best_single_dev_perplexity=10.0, weights="average of 5"),
        a_run("failed", 1),
    ]
    *_, line = averages(rows(runs))
    assert line == "| x | 11.00 ± 1.41 | 10.00 | +1.00 ± 1.41 | best alone, average of 5 |"


def test_one_model_for_all_pairs_differs_from_a_model_of_each_only_in_its_pairs() -> None:
    many = PipelineConfig.model_validate(recipe(Path("text"), PAIRS, 1_200))
    assert set(many.languages.pairs) == {*PAIRS} and len(PAIRS) == 12
    assert {pair for corpus in many.corpus.test for pair in corpus.pairs} == {*PAIRS}
    for pair in PAIRS:
        own = PipelineConfig.model_validate(recipe(Path("text"), [pair], 100))
        assert own.languages.pair == pair
        assert own.model.model_copy(update={"dropout": many.model.dropout}) == many.model
        assert (own.corpus.train[0].source, own.corpus.train[0].target) == tuple(
            str(Path("text", f"train.{language}.gz")) for language in pair.split("-")
        )
        limits = {rule.pair: rule.max_pairs for rule in many.mix.pairs}
        assert [rule.max_pairs for rule in own.mix.corpora] == ([limits[pair]] if pair in POOREST else [])


def test_mixed_korean_recipes_differ_in_their_pieces_alone_and_no_test_text_is_trained_on(tmp_path: Path) -> None:
    made = []
    for pieces in PIECES:
        file = tmp_path / f"{pieces}.yaml"
        file.write_text(yaml.safe_dump(recipe_of_mixed(Path("text"), pieces, 800)))
        made.append(load_recipe(str(file)).model_dump(exclude={"name": True, "description": True, "corpus": {"lock"}}))
    first, *others = made
    for other in others:
        assert {name for name in first if first[name] != other[name]} == {"tokenizer"}
    assert not {*TRAIN.values()} & {*TEST.values()}
    assert {rule["corpus"] for rule in first["mix"]["corpora"]} < {*TRAIN}
