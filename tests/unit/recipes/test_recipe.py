"""Shipped recipes are valid. Every kind of bad input gets one message with the place, the value and the remedy."""

from pathlib import Path

import pytest

from nmt_core.errors import ConfigError
from nmt_core.recipes.recipe import load_recipe, recipe_names, split_changes, with_changes

GOOD = "name: mine\ncorpus: {toy: {pairs: 2000}}\n"


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    file = tmp_path / "mine.yaml"
    file.write_text(GOOD)
    return file


def complaint(recipe: Path | str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_recipe(str(recipe), overrides)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_there_are_recipes() -> None:
    assert {"quickstart", "multi30k-en-de"} <= set(recipe_names())


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_is_valid_and_says_what_it_is(name: str) -> None:
    config = load_recipe(name)
    assert config.name == name
    assert config.description
    assert config.corpus.licence


def test_the_toy_is_labelled_one() -> None:
    config = load_recipe("quickstart")
    assert config.corpus.toy
    assert "toy" in config.description.lower()


def test_a_recipe_is_a_name_or_a_path(recipe: Path) -> None:
    assert load_recipe(str(recipe)).corpus.toy.pairs == 2000
    without_suffix = recipe.rename(recipe.with_suffix(""))
    assert load_recipe(str(without_suffix)).name == "mine"


def test_overrides_replace_values(recipe: Path) -> None:
    config = load_recipe(
        str(recipe),
        ["train.seed=5", "search.beam_size=1", "corpus.toy.pairs=3000", "train.adam_epsilon=1e-8", "description=a=b"],
    )
    assert (config.train.seed, config.search.beam_size, config.corpus.toy.pairs) == (5, 1, 3000)
    assert (config.train.adam_epsilon, config.description) == (1e-8, "a=b")


def test_overrides_reach_into_lists() -> None:
    config = load_recipe("multi30k-en-de", ["corpus.train.0.source=/data/train.en"])
    assert config.corpus.train[0].source == "/data/train.en"


def test_an_empty_override_is_an_empty_text() -> None:
    assert load_recipe("multi30k-en-de", ["corpus.train.0.source_sha256="]).corpus.train[0].source_sha256 == ""


def test_a_recipe_that_is_a_file_has_its_lock_file_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "name: mine\ncorpus: {train: ['https://host.invalid/a.tsv']}\n"
    (tmp_path / "mine.v2.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)

    assert load_recipe("mine.v2.yaml").corpus.lock == str(tmp_path / "mine.v2.lock.json")
    assert load_recipe("mine.v2.yaml", ["corpus.lock=/elsewhere"]).corpus.lock == "/elsewhere"
    (tmp_path / "plain").write_text(text)
    assert load_recipe("plain").corpus.lock == str(tmp_path / "plain.lock.json")


def test_no_lock_file_where_nothing_is_fetched_or_all_is_pinned(recipe: Path) -> None:
    assert load_recipe(str(recipe)).corpus.lock == ""
    assert load_recipe("multi30k-en-de").corpus.lock == ""


def test_a_recipe_without_a_corpus_is_told_so_all_the_same(recipe: Path) -> None:
    recipe.write_text("name: mine\ncorpus: words\n")
    assert "corpus='words'" in complaint(recipe)


def test_an_unknown_recipe() -> None:
    message = complaint("quickstrat")
    assert "'quickstrat' is unknown" in message
    assert "did you mean 'quickstart'?" in message
    assert "multi30k-en-de" in message


def test_an_unknown_key(recipe: Path) -> None:
    message = complaint(recipe, "train.warmup_update=3")
    assert "train.warmup_update is not a key: did you mean 'warmup_updates'?" in message


def test_an_unknown_section(recipe: Path) -> None:
    assert "trian is not a key: did you mean 'train'?" in complaint(recipe, "trian.seed=3")


def test_an_unknown_key_in_a_list() -> None:
    message = complaint("multi30k-en-de", "corpus.train.0.sorce=x")
    assert "corpus.train.0.sorce is not a key: did you mean 'source'?" in message


def test_a_key_like_no_other_lists_the_keys(recipe: Path) -> None:
    assert "average.zzz is not a key: the keys here are strategy, checkpoints" in complaint(recipe, "average.zzz=1")


@pytest.mark.parametrize(
    ("override", "path", "remedy"),
    [
        ("model.dropout=1.5", "model.dropout=1.5", "less than 1"),
        ("model.norm=middle", "model.norm='middle'", "'post' or 'pre'"),
        ("tokenizer.vocab_size=many", "tokenizer.vocab_size='many'", "whole number"),
        ("corpus.toy.pairs=1", "corpus.toy.pairs=1", "at least 1,000"),
        ("average.checkpoints=7", "average.checkpoints=7", "keep at least as many"),
        ("model.num_heads=3", "model d_model=512 is not a multiple of num_heads=3", "change either"),
        ("name=two words", "name='two words'", "a name of letters"),
    ],
)
def test_a_wrong_value_is_named_with_its_path_and_remedy(recipe: Path, override: str, path: str, remedy: str) -> None:
    message = complaint(recipe, override)
    assert message.startswith(f"recipe {recipe}: ")
    assert path in message
    assert remedy in message


def test_all_wrong_places_are_named_at_once(recipe: Path) -> None:
    message = complaint(recipe, "model.dropout=2", "train.sead=1", "average.checkpoints=0")
    assert all(place in message for place in ("model.dropout=2", "train.sead", "average.checkpoints=0"))


def test_a_missing_key(recipe: Path) -> None:
    recipe.write_text("name: mine\n")
    assert "corpus is missing: set it" in complaint(recipe)


@pytest.mark.parametrize("override", ["train.seed", "=5", ".seed=5", "train.=5", "train..seed=5"])
def test_an_override_without_key_or_value(recipe: Path, override: str) -> None:
    assert f"--set {override}: must read section.key=value" in complaint(recipe, override)


def test_an_override_that_is_not_yaml(recipe: Path) -> None:
    assert "put it in quotes" in complaint(recipe, "description=[1, 2")


@pytest.mark.parametrize("override", ["name.first=x", "corpus.toy.pairs.more=1"])
def test_an_override_below_a_value(recipe: Path, override: str) -> None:
    assert f"--set {override}: there is no such place in the recipe" in complaint(recipe, override)


@pytest.mark.parametrize("index", ["7", "x"])
def test_an_override_beyond_a_list(index: str) -> None:
    assert "there is no such place in the recipe" in complaint("multi30k-en-de", f"corpus.train.{index}.source=x")


def test_a_file_that_is_not_yaml(recipe: Path) -> None:
    recipe.write_text("name: [unclosed\n")
    message = complaint(recipe)
    assert "not valid YAML" in message
    assert "line" in message


@pytest.mark.parametrize(("text", "kind"), [("- a\n- b\n", "list"), ("", "NoneType"), ("words", "str")])
def test_a_file_without_sections(recipe: Path, text: str, kind: str) -> None:
    recipe.write_text(text)
    assert f"holds {kind}, not sections" in complaint(recipe)


def test_a_missing_file(tmp_path: Path) -> None:
    message = complaint(tmp_path / "none.yaml")
    assert "cannot be read" in message
    assert "give the path of a YAML file" in message


def test_a_file_that_is_not_text(recipe: Path) -> None:
    recipe.write_bytes(b"\xff\xfe\x00")
    assert "cannot be read" in complaint(recipe)


def write(folder: Path, **recipes: str) -> Path:
    """Write recipes by their names, and return the folder of the last file."""
    for name, text in recipes.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


def test_a_recipe_holds_the_differences_from_its_base(recipe: Path) -> None:
    recipe.write_text(
        "name: mine\nbase: multi30k-en-de\nmodel: {dropout: 0.5}\ncorpus: {test: [sacrebleu:wmt14/en-de]}\n"
    )
    base, config = load_recipe("multi30k-en-de"), load_recipe(str(recipe), ["model.d_ff=300"])
    assert config.model == base.model.model_copy(update={"dropout": 0.5, "d_ff": 300})
    assert [corpus.name for corpus in config.corpus.test] == ["sacrebleu-wmt14-en-de"], "a list is replaced as a whole"
    assert (config.corpus.train, config.train) == (base.corpus.train, base.train)
    assert (config.name, config.description) == ("mine", "")


def test_a_base_may_have_a_base_and_lie_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "below").mkdir()
    write(tmp_path, first="name: first\nbase: below/second.yaml\ntrain: {seed: 3}\n")
    write(tmp_path / "below", second="name: second\nbase: third.yaml\ntrain: {seed: 2, max_updates: 7}\n")
    write(tmp_path / "below", third=GOOD + "train: {seed: 1, warmup_updates: 9}\n")
    monkeypatch.chdir(tmp_path / "below")
    train = load_recipe("../first.yaml").train
    assert (train.seed, train.max_updates, train.warmup_updates) == (3, 7, 9)
    assert load_recipe(str(tmp_path / "first.yaml")).train == train


def test_null_takes_away_what_the_base_has(recipe: Path) -> None:
    recipe.write_text("name: mine\nbase: quickstart\ncorpus: {toy: null, train: [a.tsv], lock: a.json}\n")
    config = load_recipe(str(recipe))
    assert config.corpus.toy is None
    assert [corpus.address for corpus in config.corpus.train] == ["a.tsv"]


def test_the_lock_file_is_beside_the_recipe_that_is_run(tmp_path: Path) -> None:
    write(tmp_path, mine="name: mine\nbase: multi30k-en-de\n", other="name: other\nbase: mine.yaml\n")
    assert load_recipe(str(tmp_path / "other.yaml")).corpus.lock == str(tmp_path / "other.lock.json")
    assert load_recipe("table3-base").corpus.lock == ""


def test_a_recipe_needs_a_name_of_its_own(recipe: Path) -> None:
    recipe.write_text("base: quickstart\n")
    assert complaint(recipe).endswith("name is missing: set it")


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_bases_in_a_circle_are_refused(tmp_path: Path, steps: int) -> None:
    for step in range(steps):
        write(tmp_path, **{f"r{step}": f"name: r{step}\nbase: ./r{(step + 1) % steps}.yaml\n"})
    message = complaint(tmp_path / "r0.yaml")
    assert "is circular (" in message
    assert message.endswith(f"{tmp_path}/r0.yaml): remove one of these bases")


@pytest.mark.parametrize(
    ("base", "part"),
    [
        ("quickstrat", "recipe {file}: base: recipe 'quickstrat' is unknown: did you mean 'quickstart'?"),
        ("none.yaml", "recipe {file}: base: recipe {folder}/none.yaml: cannot be read"),
        ("[quickstart]", "recipe {file}: base=['quickstart']: write the name of one recipe"),
        ("", "recipe {file}: base=None: write the name of one recipe"),
    ],
)
def test_a_base_that_is_none_is_told_with_its_place(recipe: Path, base: str, part: str) -> None:
    recipe.write_text(f"name: mine\nbase: {base}\n")
    assert part.format(file=recipe, folder=recipe.parent) in complaint(recipe)


def test_the_text_of_one_recipe_and_the_rest_of_another() -> None:
    text, rest = load_recipe("quickstart"), load_recipe("table3-a1")
    config = load_recipe("table3-a1", ["tokenizer.vocab_size=900"], text_of="quickstart")
    assert (config.corpus, config.languages, config.clean) == (text.corpus, text.languages, text.clean)
    assert config.tokenizer == text.tokenizer.model_copy(update={"vocab_size": 900})
    assert config.encode == text.encode
    assert (config.name, config.model, config.train, config.search) == (
        "table3-a1",
        rest.model,
        rest.train,
        rest.search,
    )


def test_the_lock_file_goes_with_the_text(recipe: Path, tmp_path: Path) -> None:
    write(tmp_path, text="name: text\ncorpus: {train: [a.tsv]}\n")
    config = load_recipe(str(recipe), text_of=str(tmp_path / "text.yaml"))
    assert config.corpus.lock == str(tmp_path / "text.lock.json")


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("", []),
        ("train.max_updates=60", ["train.max_updates=60"]),
        ("train.max_updates=60, clean.max_words=12", ["train.max_updates=60", "clean.max_words=12"]),
        ("train.max_updates=60\n\n  clean.max_words=12  \n", ["train.max_updates=60", "clean.max_words=12"]),
        (
            "evaluate.sentences=[One, two., three],train.seed=3",
            ["evaluate.sentences=[One, two., three]", "train.seed=3"],
        ),
        ('evaluate.sentences=["clean, they say"]', ['evaluate.sentences=["clean, they say"]']),
        ("corpus.licence=mine, train. Yes", ["corpus.licence=mine, train. Yes"]),
    ],
)
def test_changes_of_a_form_are_separated_by_commas_and_lines(text: str, changes: list[str]) -> None:
    assert split_changes(text) == changes


def test_changes_of_a_form_match_the_command_line(recipe: Path) -> None:
    asked = ["train.max_updates=60", "corpus.toy.pairs=2100", "evaluate.sentences=[One]"]
    values = load_recipe(str(recipe)).model_dump(mode="json")
    assert with_changes(values, ", ".join(asked)) == load_recipe(str(recipe), asked)
    assert with_changes(load_recipe(str(recipe)), "\n".join(asked)) == load_recipe(str(recipe), asked)
    assert values == load_recipe(str(recipe)).model_dump(mode="json"), "the values stay as they were"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("train.max_updates", "--set train.max_updates: must read section.key=value"),
        ("train.max_update=60", "recipe mine: train.max_update is not a key: did you mean 'max_updates'?"),
        ("average.checkpoints=9", "recipe mine: average.checkpoints=9 is more than train.keep_checkpoints"),
    ],
)
def test_a_wrong_change_of_a_form_is_refused_as_on_the_command_line(recipe: Path, changes: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        with_changes(load_recipe(str(recipe)), changes)
    assert message in str(caught.value) and "\n" not in str(caught.value)
