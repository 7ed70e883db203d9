"""Each option is described, bounded and frozen.

Defaults are the values of the paper. Wrong combinations are refused.
"""

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
    FilterConfig,
    FilterOverride,
    ModelConfig,
    ParallelCorpus,
    PipelineConfig,
    RnnConfig,
    SearchConfig,
    Section,
    ToyCorpusConfig,
    TrainConfig,
)
from nmt_core.corpus import toy

FREE_TEXT = {
    "description",
    "licence",
    "citation",
    "source_column",
    "target_column",
    "corpus",
    "member",
    "source_prefix",
    "target_prefix",
}
PLACES = {"address", "start_from", "source", "target", "mirror", "lock", "source_word_list", "target_word_list"}
PLACES |= {"identifier_model", "other_direction", "checkpoint", "vocabulary", "file", "bundle"}
TOY: dict[str, Any] = {"name": "toy", "corpus": {"toy": {}}}
RNN: dict[str, Any] = {"architecture": "rnn", "encoder_layers": 1, "decoder_layers": 1, "tied_embeddings": "none"}


def section_of(annotation: Any) -> type[Section] | None:
    """Return the section that a field holds, alone, optionally or in a tuple."""
    candidates = (annotation, *get_args(annotation))
    return next((c for c in candidates if isinstance(c, type) and issubclass(c, Section)), None)


def sections(root: type[Section] = PipelineConfig) -> Iterator[type[Section]]:
    yield root
    for field in root.model_fields.values():
        if inner := section_of(field.annotation):
            yield from sections(inner)


SECTIONS = sorted(set(sections()), key=lambda section: section.__name__)
OPTIONS = {
    f"{section.__name__}.{name}": field
    for section in SECTIONS
    for name, field in section.model_fields.items()
    if not section_of(field.annotation) or section is CorpusConfig
}


def test_every_option_says_what_it_is() -> None:
    assert len(OPTIONS) > 100
    descriptions = {option: field.description or "" for option, field in OPTIONS.items()}
    assert [option for option, text in descriptions.items() if len(text) <= 10 or not text.endswith(".")] == []


def test_every_section_says_what_it_is() -> None:
    assert len(SECTIONS) > 15
    assert [section for section in SECTIONS if not (section.__doc__ or "").strip().endswith(".")] == []


def test_every_number_and_name_is_bounded() -> None:
    def takes_anything(option: str, field: FieldInfo) -> bool:
        is_name = field.annotation is str and option.partition(".")[2] not in FREE_TEXT | PLACES
        return (field.annotation in (int, float) or is_name) and not field.metadata

    assert [option for option, field in OPTIONS.items() if takes_anything(option, field)] == []


def test_unknown_keys_are_errors() -> None:
    def errors(section: type[Section]) -> list[tuple[str, tuple[int | str, ...]]]:
        with pytest.raises(ValidationError) as caught:
            section.model_validate({"no_such_key": 1})
        return [(error["type"], error["loc"]) for error in caught.value.errors()]

    assert [section for section in SECTIONS if ("extra_forbidden", ("no_such_key",)) not in errors(section)] == []


def test_a_configuration_is_frozen() -> None:
    config = PipelineConfig.model_validate(TOY)
    for holder, name in ((config, "name"), (config.train, "seed"), (config.corpus.toy, "pairs")):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(holder, name, 2)


def test_the_defaults_are_the_papers_base_model() -> None:
    model, train, search = ModelConfig(), TrainConfig(), SearchConfig()
    assert (model.d_model, model.d_ff, model.num_heads) == (512, 2048, 8)
    assert (model.encoder_layers, model.decoder_layers) == (6, 6)
    assert (model.dropout, model.norm, model.tied_embeddings) == (0.1, "post", "three_way")
    assert (train.max_updates, train.max_tokens, train.warmup_updates) == (100_000, 25_000, 4_000)
    assert (train.learning_rate_scale, train.label_smoothing, train.max_gradient_norm) == (1.0, 0.1, 0.0)
    assert (train.adam_beta1, train.adam_beta2, train.adam_epsilon) == (0.9, 0.98, 1e-9)
    assert (search.beam_size, search.length_penalty, search.max_length_offset) == (4, 0.6, 50)


def test_a_section_of_a_recipe_is_a_module_of_its_name() -> None:
    found = {name: section_of(field.annotation) for name, field in PipelineConfig.model_fields.items()}
    modules = {name: section.__module__ for name, section in found.items() if section}
    assert modules == {name: f"nmt_core.config.{name}" for name in modules}
    assert len(modules) > 15


def test_forms_show_the_options_in_the_order_of_the_file() -> None:
    def shown(section: type[Section]) -> list[tuple[str, int]]:
        return [(name, field["position"]) for name, field in section.model_json_schema()["properties"].items()]

    expected = {section: [(name, place) for place, name in enumerate(section.model_fields)] for section in SECTIONS}
    assert [section for section in SECTIONS if shown(section) != expected[section]] == []


def test_nothing_slow_is_imported() -> None:
    slow = {"torch", "polars", "numpy", "prefect", "mlflow"}
    code = f"import sys, nmt_core.config; print(sorted({slow} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


@pytest.mark.parametrize(
    ("section", "values", "message"),
    [
        (ModelConfig, {"d_model": 30, "num_heads": 4}, "d_model=30 is not a multiple of num_heads=4"),
        (
            ModelConfig,
            {"d_model": 30, "num_heads": 4, "key_width": 8},
            "change either, or set key_width and value_width",
        ),
        (ModelConfig, {"d_model": 9, "num_heads": 3}, "d_model=9 is odd"),
        (
            ModelConfig,
            {"rnn": {"cell": "lstm"}},
            "rnn has no effect with architecture=transformer: set architecture to rnn",
        ),
        (ModelConfig, RNN | {"layer_norm_eps": 1e-6}, "layer_norm_eps=1e-06 has no effect with architecture=rnn"),
        (ModelConfig, RNN | {"decoder_layers": 2}, "decoder_layers=2: a decoder with an alignment model"),
        (ModelConfig, RNN | {"tied_embeddings": "two_way"}, "its width 500 is not d_model=512: set tied_embeddings"),
        (
            ModelConfig,
            RNN | {"encoder_layers": 2, "rnn": {"attention": "dot", "bidirectional": False}},
            "encoder_layers=2 and decoder_layers=1 differ, but with rnn.attention=dot",
        ),
        (RnnConfig, {"attention": "general"}, "set bidirectional to false"),
        (RnnConfig, {"input_feeding": True}, "which attention=additive does not have: set attention to dot, general"),
        (RnnConfig, {"attention": "dot"}, "set bidirectional to false"),
        (RnnConfig, {"context": "first_state"}, "context=first_state needs attention=none, not additive"),
        (RnnConfig, {"reverse_source": True}, "reverse_source=true needs bidirectional=false"),
        (
            PipelineConfig,
            TOY | {"model": RNN, "train": {"batching": "packed"}},
            "train.batching=packed needs model.architecture=transformer, because a recurrent network reads",
        ),
        (PipelineConfig, TOY | {"train": {"bptt_steps": 20}}, "train.bptt_steps=20 has no effect on a Transformer"),
        (ModelConfig, {"positions": "rotary", "key_width": 7}, "rotates pairs, but the keys of a head are 7 wide"),
        (
            PipelineConfig,
            TOY | {"model": {"positions": "learned", "max_positions": 200}},
            "encode.max_length=256 is more than model.max_positions=200",
        ),
        (
            PipelineConfig,
            TOY | {"model": {"positions": "learned", "max_positions": 1_000}},
            "needs 1,075 positions, more than model.max_positions=1000: lower the first, or raise the last",
        ),
        (EvaluateConfig, {"metrics": ["BLEU"]}, "name=BLEU: every evaluation has this score"),
        (EvaluateConfig, {"metrics": ["TER", {"name": "TER"}]}, "metrics has the name 'TER' twice"),
        (EvaluateConfig, {"metrics": ["COMET"]}, "name='COMET' is none of TER, chrF++, spBLEU: write one of these"),
        (EvaluateConfig, {"metrics": [{"name": "TER", "command": "x"}]}, "name=TER is a metric of sacreBLEU"),
        (EvaluateConfig, {"metrics": [{"name": "TER", "factor": 2}]}, "factor has no effect without command"),
        (EvaluateConfig, {"metrics": [{"name": "TER", "vocabulary": "a"}]}, "vocabulary has no effect on TER"),
        (SearchConfig, {"candidates": 8}, "candidates=8 has no effect with rerank=none: set rerank to mbr"),
        (SearchConfig, {"rerank": "judge"}, "rerank=judge needs a program that chooses: set judge.command"),
        (SearchConfig, {"judge": {"command": "a"}}, "judge has no effect with rerank=none: set rerank to judge"),
        (SearchConfig, {"rerank": "judge", "judge": {"command": "a"}, "beam_size": 1}, "among 1 candidates of a beam"),
        (SearchConfig, {"rerank": "mbr", "candidates": 8}, "among 8 candidates of a beam of 4: set beam_size"),
        (SearchConfig, {"rerank": "mbr", "beam_size": 1}, "among 1 candidates of a beam of 1: set beam_size to 2"),
        (TrainConfig, {"start_optimizer": "kept"}, "start_optimizer=kept needs a checkpoint: set start_from"),
        (CleanConfig, {"min_words": 9, "max_words": 8}, "min_words=9 is more than max_words=8"),
        (CleanConfig, {"ngram_words": 5}, "short_ngram_words=9 is more than ngram_words=5"),
        (CleanConfig, {"punctuation": "full_width", "unicode_form": "NFKC"}, "set unicode_form to NFC"),
        (CorpusConfig, {}, "names no training text"),
        (
            CorpusConfig,
            {"toy": {}, "dev": [{"name": "a", "source": "s", "target": "t"}]},
            "has both corpus.toy and files",
        ),
        (CorpusConfig, {"train": [{"name": "a", "source": "s", "target": "t"}] * 2}, "the name 'a' twice"),
        (PipelineConfig, TOY | {"average": {"checkpoints": 9}}, "average.checkpoints=9 is more than train.keep_check"),
        (PipelineConfig, TOY | {"average": {"ensemble": 9}}, "average.ensemble=9 is more than train.keep_check"),
        (PipelineConfig, TOY | {"average": {"ensemble": 1}}, "ensemble=1 is one checkpoint: set it to 2 or more"),
        (
            PipelineConfig,
            TOY | {"average": {"ensemble": 2, "strategy": "ema"}, "train": {"ema_decay": 0.99}},
            "ensemble=2 needs several checkpoints, and strategy=ema has one average: set strategy",
        ),
        (PipelineConfig, TOY | {"train": {"micro_batch_tokens": 128}}, "encode.max_length=256 is more than 128"),
        (
            PipelineConfig,
            TOY | {"train": {"micro_batch_tokens": 500, "batching": "packed"}},
            "encode.max_length=256 is more than 250",
        ),
        (TrainConfig, {"max_tokens_per_pass": 1_000}, "micro_batch_tokens=2048 is more than max_tokens_per_pass=1000"),
        (TrainConfig, {"weight_decay": 0.1}, "weight_decay=0.1 needs adamw"),
        (TrainConfig, {"stop_on": "chrf"}, "stop_on=chrf needs translations to score: set dev_sentences"),
        (
            TrainConfig,
            {"keep_best": 2, "checkpoint_every": 100, "validate_every": 30},
            "checkpoint_every=100 is not a multiple of validate_every=30",
        ),
        (
            PipelineConfig,
            TOY | {"average": {"checkpoints": 6}, "train": {"keep_best": 6}},
            "average.checkpoints=6 is more than train.keep_checkpoints=5: keep",
        ),
        (
            PipelineConfig,
            TOY | {"average": {"checkpoints": 7, "strategy": "best"}, "train": {"keep_best": 6}},
            "average.checkpoints=7 is more than train.keep_checkpoints=5 and train.keep_best=6: keep",
        ),
        (SearchConfig, {"n_best": 5}, "n_best=5 is more than beam_size=4: raise beam_size"),
        (SearchConfig, {"min_length": 51}, "min_length=51 is more than max_length_offset=50"),
        (EvaluateConfig, {"sentences": ["two\nlines"]}, "one line of text"),
        (EvaluateConfig, {"sentences": [" "]}, "one line of text"),
        (CleanConfig, {"scores": [{"scorer": "x", "command": " "}]}, "names no program"),
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
    """The error comes before anything runs, and not in the download stage."""
    with pytest.raises(ValidationError):
        ToyCorpusConfig(pairs=pairs, held_out=held_out)


@pytest.mark.parametrize("max_length", [1_025, 100_000])
def test_a_pair_cannot_be_longer_than_the_model_has_positions(max_length: int) -> None:
    with pytest.raises(ValidationError, match="max_length"):
        PipelineConfig.model_validate(
            TOY
            | {
                "encode": {"max_length": max_length},
                "train": {"micro_batch_tokens": 200_000, "max_tokens": 200_000, "max_tokens_per_pass": 200_000},
            }
        )


def test_an_update_cannot_be_smaller_than_the_longest_pair() -> None:
    """`train.max_tokens` promises that no batch is larger, but a single long pair would be."""
    with pytest.raises(ValidationError, match="max_tokens"):
        PipelineConfig.model_validate(
            TOY | {"encode": {"max_length": 128}, "train": {"micro_batch_tokens": 256, "max_tokens": 200}}
        )


def test_a_search_with_a_shortlist_needs_a_model_that_has_one() -> None:
    with pytest.raises(ValidationError, match=r"search\.shortlist=always needs .*: set export\.shortlist to true"):
        PipelineConfig.model_validate(TOY | {"search": {"shortlist": True}})
    PipelineConfig.model_validate(TOY | {"search": {"shortlist": True}, "export": {"shortlist": True}})


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
    if get_origin(field.annotation) is tuple:
        words = st.lists(st.text(max_size=5), max_size=2).map(tuple)
        return words if get_args(field.annotation)[0] is str else st.just(())
    if type(None) in get_args(field.annotation):
        return st.none()
    assert field.annotation is str
    return st.text(max_size=10)


def _bounds(item: object) -> list[tuple[str, Any]]:
    return [(key, getattr(item, key)) for key in ("ge", "gt", "le", "lt") if hasattr(item, key)]


def section_values(section: type[Section]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={name: values_of(f) for name, f in section.model_fields.items()})


@given(train=section_values(TrainConfig), clean=section_values(CleanConfig), search=section_values(SearchConfig))
def test_a_configuration_survives_json(train: dict[str, Any], clean: dict[str, Any], search: dict[str, Any]) -> None:
    # Bounds that hold between options have tests of their own.
    fitting = train | {"max_tokens": 25_000, "max_tokens_per_pass": 25_000, "micro_batch_tokens": 1_024}
    fitting |= {"keep_checkpoints": 5, "optimizer": "adamw", "stop_on": "dev_loss", "keep_best": 0}
    fitting |= {"start_optimizer": "fresh", "bptt_steps": 0, "int8_aware_from": 0, "new_rows_first": 0}
    search |= {"n_best": 1, "min_length": 0, "shortlist": "never", "rerank": "none", "candidates": 0}
    clean |= {"min_words": 1, "min_characters": 1, "short_ngram_words": 3, "prefer": "first"}
    clean |= {"in_domain": "", "identifier": "", "identifier_model": "", "unicode_form": "NFC"}
    config = PipelineConfig.model_validate(TOY | {"train": fitting, "clean": clean, "search": search})
    assert PipelineConfig.model_validate_json(config.model_dump_json()) == config
    assert {name: getattr(config.clean, name) for name in clean} == clean
    assert {name: getattr(config.search, name) for name in search} == search


def test_an_override_has_the_bounds_and_the_meaning_of_the_option_and_no_default() -> None:
    options = FilterConfig.model_fields
    assert FilterOverride.model_fields.keys() == {"pair", "corpus", *options}
    assert FilterOverride(pair="en-ko").model_dump(exclude_none=True) == {"pair": "en-ko", "corpus": ""}
    assert all(FilterOverride.model_fields[name].description == options[name].description for name in options)
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        FilterOverride.model_validate({"pair": "en-ko", "max_words": 0})
    with pytest.raises(ValidationError, match="names neither a pair nor a corpus"):
        FilterOverride.model_validate({"max_words": 10})
    config = PipelineConfig.model_validate(TOY | {"clean": {"overrides": [{"pair": "en-ko", "max_words": 9}]}})
    assert PipelineConfig.model_validate_json(config.model_dump_json()) == config


@pytest.mark.parametrize(
    ("section", "place"),
    [
        ({"mix": {"corpora": [{"corpus": "tay"}]}}, "mix.corpora.0.corpus='tay' is not in corpus.train"),
        ({"clean": {"overrides": [{"corpus": "tay"}]}}, "clean.overrides.0.corpus='tay' is not in corpus.train"),
    ],
)
def test_a_rule_for_a_corpus_that_is_not_there_is_refused(section: dict[str, Any], place: str) -> None:
    with pytest.raises(ValidationError, match=place):
        PipelineConfig.model_validate(TOY | section)


@pytest.mark.parametrize(
    ("corpus", "name"),
    [
        ("opus:Tatoeba/v2023-04-12", "opus-Tatoeba-v2023-04-12"),
        ("../text/mine*.tsv", "text-mine-.tsv"),
        ({"address": "hf:org/name@main", "source_column": "en"}, "hf-org-name-main"),
        ({"name": "news", "source": "a.en", "target": "a.de"}, "news"),
    ],
)
def test_a_corpus_is_named_by_its_address_unless_it_has_a_name(corpus: Any, name: str) -> None:
    config = PipelineConfig.model_validate({"name": "x", "corpus": {"train": [corpus]}})
    assert config.corpus.train[0].name == name


@pytest.mark.parametrize(
    ("corpus", "problem"),
    [
        ({"name": "x"}, "needs either `address`, or both"),
        ("https://nmt:sesame@example.org/a.tsv", "has a password in its address"),
        ({"name": "x", "source": "a", "target": "https://nmt:sesame@example.org/b"}, "has a password in its address"),
        ({"name": "x", "source": "a"}, "needs either `address`, or both"),
        ({"name": "x", "address": "a", "source": "a", "target": "b"}, "needs either `address`, or both"),
        ({"name": "x", "address": "a", "source_sha256": "0" * 64}, "give its hash as `sha256`"),
        ({"name": "x", "source": "a", "target": "b", "sha256": "0" * 64}, "as `source_sha256` and `target_sha256`"),
    ],
)
def test_a_corpus_says_where_it_is_in_one_way(corpus: Any, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        PipelineConfig.model_validate({"name": "x", "corpus": {"train": [corpus]}})


def test_what_cannot_be_is_refused_before_anything_runs() -> None:
    separate = {"tokenizer": {"vocabularies": "separate"}}
    with pytest.raises(ValidationError, match=r"set model\.tied_embeddings to two_way"):
        PipelineConfig.model_validate(TOY | separate)
    PipelineConfig.model_validate(TOY | separate | {"model": {"tied_embeddings": "two_way"}})
    with pytest.raises(ValidationError, match="prefer=best needs a score"):
        PipelineConfig.model_validate(TOY | {"clean": {"prefer": "best"}})


@pytest.mark.parametrize(
    ("code", "shortest"), [("eng", "en"), ("kor", "ko"), ("zho", "zh"), ("cmn", "zh"), ("iw", "he")]
)
def test_a_language_is_named_by_its_shortest_code(code: str, shortest: str) -> None:
    """Under another code, language and script would not be checked, and words not counted, without a message."""
    for section in (
        {"languages": {"source": code, "target": "fr"}},
        {"languages": {"source": "fr", "target": code}},
        {"clean": {"overrides": [{"pair": f"fr-{code}", "max_words": 9}]}},
    ):
        with pytest.raises(ValidationError, match=rf"'{code}' is not the shortest .*: write '{shortest}'"):
            PipelineConfig.model_validate(TOY | section)


@pytest.mark.parametrize("code", ["en", "yue", "fil", "ceb", "nds"])
def test_a_language_without_a_shorter_code_keeps_its_own(code: str) -> None:
    section = {"languages": {"source": "fr", "target": code}, "clean": {"overrides": [{"pair": f"fr-{code}"}]}}
    assert PipelineConfig.model_validate(TOY | section).languages.target == code


def test_a_recipe_with_metrics_suites_and_systems_can_be_stored_and_read_again() -> None:
    """A stored recipe has every option, so that defaults must not look like options that were written."""
    evaluate = {
        "metrics": ["TER", {"name": "judge", "command": "judge", "factor": 2}],
        "suites": ["numbers", {"kind": "typos", "rate": 0.5}, {"kind": "long_lines", "joined": 2}],
        "systems": [
            {"name": "file", "file": "{test_set}.txt"},
            {"name": "service", "address": "http://127.0.0.1:9", "batch": 3},
            {"name": "program", "command": "cat"},
            {"name": "model", "bundle": "models:/a@champion"},
        ],
    }
    train = {"dev_metric": "chrF++", "stop_on": "dev_metric", "dev_sentences": 3}
    config = PipelineConfig.model_validate(TOY | {"evaluate": evaluate, "train": train})
    assert PipelineConfig.model_validate(config.model_dump(mode="json")) == config
    assert TrainConfig.model_validate(config.train.model_dump()) == config.train
