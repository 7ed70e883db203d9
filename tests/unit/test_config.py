"""Every knob is described, bounded and frozen; the defaults are the paper's; wrong combinations are refused."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from nmt_core.config import (
    CleanConfig,
    CorpusConfig,
    EvaluateConfig,
    ModelConfig,
    ParallelCorpus,
    PipelineConfig,
    SearchConfig,
    Section,
    ToyCorpusConfig,
    TrainConfig,
)
from nmt_core.corpus import toy

FREE_TEXT = {"description", "mirror", "licence"}
TOY: dict[str, Any] = {"name": "toy", "corpus": {"toy": {}}}


def section_of(annotation: Any) -> type[Section] | None:
    """The section that a field holds, alone, optionally or in a tuple."""
    candidates = (annotation, *get_args(annotation))
    return next((c for c in candidates if isinstance(c, type) and issubclass(c, Section)), None)


def sections(root: type[Section] = PipelineConfig) -> Iterator[type[Section]]:
    yield root
    for field in root.model_fields.values():
        if inner := section_of(field.annotation):
            yield from sections(inner)


SECTIONS = sorted(set(sections()), key=lambda section: section.__name__)
KNOBS = [
    pytest.param(name, field, id=f"{section.__name__}.{name}")
    for section in SECTIONS
    for name, field in section.model_fields.items()
    if not section_of(field.annotation) or section is CorpusConfig
]


@pytest.mark.parametrize(("name", "field"), KNOBS)
def test_every_knob_says_what_it_is(name: str, field: FieldInfo) -> None:
    assert field.description
    assert field.description.endswith(".")
    assert len(field.description) > 10


@pytest.mark.parametrize("section", SECTIONS)
def test_every_section_says_what_it_is(section: type[Section]) -> None:
    assert section.__doc__
    assert section.__doc__.endswith(".")


@pytest.mark.parametrize(("name", "field"), KNOBS)
def test_every_number_and_name_is_bounded(name: str, field: FieldInfo) -> None:
    if field.annotation in (int, float) or (field.annotation is str and name not in FREE_TEXT):
        assert field.metadata, f"{name} takes any {field.annotation.__name__}"


@pytest.mark.parametrize("section", SECTIONS)
def test_unknown_keys_are_errors(section: type[Section]) -> None:
    with pytest.raises(ValidationError) as caught:
        section.model_validate({"no_such_key": 1})
    assert ("extra_forbidden", ("no_such_key",)) in [(e["type"], e["loc"]) for e in caught.value.errors()]


def test_a_configuration_is_frozen() -> None:
    config = PipelineConfig.model_validate(TOY)
    for holder, name in ((config, "name"), (config.train, "seed"), (config.corpus.toy, "pairs")):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(holder, name, 2)


def test_the_defaults_are_the_papers_base_model() -> None:
    model, train, search = ModelConfig(), TrainConfig(), SearchConfig()
    assert (model.d_model, model.d_ff, model.num_heads) == (512, 2048, 8)
    assert (model.encoder_layers, model.decoder_layers) == (6, 6)
    assert (model.dropout, model.norm, model.tied_embeddings) == (0.1, "post", "three-way")
    assert (train.max_updates, train.max_tokens, train.warmup_updates) == (100_000, 25_000, 4_000)
    assert (train.learning_rate_scale, train.label_smoothing, train.max_gradient_norm) == (1.0, 0.1, 0.0)
    assert (train.adam_beta1, train.adam_beta2, train.adam_epsilon) == (0.9, 0.98, 1e-9)
    assert (search.beam_size, search.length_penalty, search.max_length_offset) == (4, 0.6, 50)


@pytest.mark.parametrize("section", SECTIONS)
def test_forms_show_the_knobs_in_the_order_of_the_file(section: type[Section]) -> None:
    properties = section.model_json_schema()["properties"]
    assert list(properties) == list(section.model_fields)
    assert [field["position"] for field in properties.values()] == list(range(len(properties)))


def test_nothing_slow_is_imported() -> None:
    slow = {"torch", "polars", "numpy", "prefect", "mlflow"}
    code = f"import sys, nmt_core.config; print(sorted({slow} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


@pytest.mark.parametrize(
    ("section", "values", "message"),
    [
        (ModelConfig, {"d_model": 30, "num_heads": 4}, "d_model=30 is not a multiple of num_heads=4"),
        (ModelConfig, {"d_model": 9, "num_heads": 3}, "d_model=9 is odd"),
        (CleanConfig, {"min_words": 9, "max_words": 8}, "min_words=9 is more than max_words=8"),
        (CleanConfig, {"ngram_words": 5}, "short_ngram_words=9 is more than ngram_words=5"),
        (CorpusConfig, {}, "names no training text"),
        (
            CorpusConfig,
            {"toy": {}, "dev": [{"name": "a", "source": "s", "target": "t"}]},
            "has both corpus.toy and files",
        ),
        (CorpusConfig, {"train": [{"name": "a", "source": "s", "target": "t"}] * 2}, "the name 'a' twice"),
        (PipelineConfig, TOY | {"average": {"checkpoints": 9}}, "average.checkpoints=9 is more than train.keep_check"),
        (PipelineConfig, TOY | {"train": {"max_tokens_per_pass": 128}}, "encode.max_length=256 is more than"),
        (EvaluateConfig, {"sentences": ["two\nlines"]}, "one line of text"),
        (EvaluateConfig, {"sentences": [" "]}, "one line of text"),
        (ParallelCorpus, {"name": "a b", "source": "s", "target": "t"}, "match pattern"),
        (ParallelCorpus, {"name": "a", "source": "s", "target": "t", "source_sha256": "abc"}, "match pattern"),
    ],
)
def test_values_that_do_not_fit_together_are_refused(
    section: type[Section], values: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        section.model_validate(values)
    assert message in str(caught.value)


@pytest.mark.parametrize(("pairs", "held_out"), [(toy.MAX_PAIRS + 1, 10), (1_000, 501)])
def test_a_toy_corpus_that_cannot_be_made_is_refused(pairs: int, held_out: int) -> None:
    """Before anything runs, and not by the download stage."""
    with pytest.raises(ValidationError):
        ToyCorpusConfig(pairs=pairs, held_out=held_out)


@pytest.mark.parametrize("max_length", [1_025, 100_000])
def test_a_pair_cannot_be_longer_than_the_model_has_positions(max_length: int) -> None:
    with pytest.raises(ValidationError, match="max_length"):
        PipelineConfig.model_validate(
            TOY | {"encode": {"max_length": max_length}, "train": {"max_tokens_per_pass": 200_000}}
        )


def test_an_update_cannot_be_smaller_than_the_longest_pair() -> None:
    """`train.max_tokens` promises that no batch is larger; a single long pair would be."""
    with pytest.raises(ValidationError, match="max_tokens"):
        PipelineConfig.model_validate(TOY | {"encode": {"max_length": 256}, "train": {"max_tokens": 128}})


def values_of(field: FieldInfo) -> st.SearchStrategy[Any]:
    """Values within the bounds that the field declares."""
    bounds = {key: value for item in field.metadata for key, value in _bounds(item)}
    if get_origin(field.annotation) is Literal:
        return st.sampled_from(get_args(field.annotation))
    if field.annotation is bool:
        return st.booleans()
    if field.annotation is int:
        return st.integers(bounds.get("ge", 0), bounds.get("le", 10**9))
    if field.annotation is float:
        low, high = bounds.get("ge", bounds.get("gt", 0.0)), bounds.get("le", bounds.get("lt", 1e9))
        return st.floats(low, high, exclude_min="gt" in bounds, exclude_max="lt" in bounds)
    assert field.annotation is str
    return st.text(max_size=10)


def _bounds(item: object) -> list[tuple[str, Any]]:
    return [(key, getattr(item, key)) for key in ("ge", "gt", "le", "lt") if hasattr(item, key)]


def section_values(section: type[Section]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={name: values_of(f) for name, f in section.model_fields.items()})


@given(train=section_values(TrainConfig), clean=section_values(CleanConfig), search=section_values(SearchConfig))
def test_a_configuration_survives_json(train: dict[str, Any], clean: dict[str, Any], search: dict[str, Any]) -> None:
    # Bounds that hold between knobs have tests of their own.
    fitting = train | {"max_tokens": 25_000, "max_tokens_per_pass": 25_000, "keep_checkpoints": 5}
    clean |= {"min_words": 1, "short_ngram_words": 3}
    config = PipelineConfig.model_validate(TOY | {"train": fitting, "clean": clean, "search": search})
    assert PipelineConfig.model_validate_json(config.model_dump_json()) == config
    assert {name: getattr(config.clean, name) for name in clean} == clean
    assert {name: getattr(config.search, name) for name in search} == search
