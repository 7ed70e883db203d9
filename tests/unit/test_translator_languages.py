"""A model for many pairs of languages translates into the language that is asked for, and refuses any other."""

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from nmt_core.bundle.folder import read_bundle
from nmt_core.config import PipelineConfig, SearchConfig
from nmt_core.errors import ConfigError, DataError
from nmt_core.evaluate.report import check_sentences, run
from nmt_core.search.translation import Translation
from nmt_core.stages.stage import Job, Resources, SilentReporter
from nmt_core.store.artifacts import Artifact
from nmt_core.translator import Translator

QUICK = SearchConfig(beam_size=2, max_length_offset=8, max_source_tokens=16, batch_tokens=64)
LINES = ["the cat sees a dog.", "나는 학생 이다.", "", "a big house and a small house"]
PAIRS = ["en-ko", "ko-en", "en-de"]


@pytest.fixture(scope="module")
def bundles(
    into_many: Callable[..., Path], tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("many")
    return {side: into_many(tiny_bundle, folder / side, side, PAIRS) for side in ("source", "target")}


def texts(translations: list[Translation]) -> list[str]:
    return [one.text for one in translations]


@pytest.mark.parametrize("side", ["source", "target"])
def test_the_token_is_the_first_thing_that_the_model_reads(bundles: dict[str, Path], side: str) -> None:
    translator = Translator.load(bundles[side], QUICK)
    assert read_bundle(bundles[side]).languages.pairs == tuple(PAIRS)
    tokenizer = translator.tokenizers.source
    for language in ("ko", "en", "de"):
        [ids], token = tokenizer.encode([LINES[0]]), [tokenizer.id_of(f"<2{language}>")]
        given = ([token + ids], [[]]) if side == "source" else ([ids], [token])
        [[best, *_]] = translator.search_ids(*given)
        [expected] = tokenizer.decode([best.ids])
        found = translator.translate(LINES[0], to=language)
        assert found.text == expected
        assert found.score == pytest.approx(best.score)
        assert found.tokens == len(best.ids) - (side == "target")
    assert len({translator.translate(LINES[0], to=language).text for language in ("ko", "en", "de")}) > 1


def test_each_line_may_have_its_own_language(bundles: dict[str, Path]) -> None:
    translator = Translator.load(bundles["source"], QUICK)
    to = ["ko", "en", "de", "en-de"]
    alone = [translator.translate(line, to=language) for line, language in zip(LINES, to, strict=True)]
    together = translator.translate(LINES, to=to)
    assert texts(together) == texts(alone)
    assert together[2].text == ""
    prefixes = ["b", "", "", "a"]
    given = translator.translate(LINES, prefixes, to=to)
    assert texts(given)[1] == texts(together)[1]
    assert texts(given)[3].startswith("a")
    with pytest.raises(DataError, match="2 target languages for 4 lines"):
        translator.translate(LINES, to=["ko", "en"])


def test_a_translator_for_one_language_keeps_it(bundles: dict[str, Path]) -> None:
    translator = Translator.load(bundles["source"], QUICK)
    korean = translator.into("ko")
    assert korean.into("en-ko") is korean.into("ko") is korean
    assert (korean.languages.source, korean.languages.target) == ("en", "ko") if korean.languages else False
    expected = texts(translator.translate(LINES, to="ko"))
    assert texts(korean.translate(LINES)) == expected
    assert texts(list(korean.translate_iterable(LINES))) == texts(list(translator.translate_iterable(LINES, to="ko")))
    greedy = korean.with_search(beam_size=1)
    assert texts(greedy.translate(LINES)) == texts(translator.translate(LINES, to="ko", beam_size=1))
    assert korean.with_glossary({"cat": "b"}).languages == korean.languages
    assert translator.into("ko-en").spelling.language == "ko"
    assert korean.score([(LINES[0], expected[0])]) == translator.into("en-ko").score([(LINES[0], expected[0])])


def test_a_missing_or_unknown_language_is_refused(bundles: dict[str, Path], tiny_bundle: Path) -> None:
    translator = Translator.load(bundles["target"], QUICK)
    with pytest.raises(ConfigError, match=r"no target language is named.*ko, en, de"):
        translator.translate(LINES)
    with pytest.raises(ConfigError, match="no target language"):
        translator.score([("a", "b")])
    with pytest.raises(ConfigError, match=r"to='fr'.*ko, en, de"):
        translator.translate(LINES, to="fr")
    with pytest.raises(ConfigError, match="to='de': the model translates en-ko only"):
        Translator.load(tiny_bundle, QUICK).translate(LINES, to="de")
    one = Translator.load(tiny_bundle, QUICK)
    assert texts(one.translate(LINES, to="ko")) == texts(one.translate(LINES))


def test_a_model_with_one_target_language_needs_no_name(
    into_many: Callable[..., Path], tiny_bundle: Path, tmp_path: Path
) -> None:
    bundle = into_many(tiny_bundle, tmp_path / "one", "source", ["en-ko", "de-ko"])
    translator = Translator.load(bundle, QUICK)
    assert texts(translator.translate(LINES)) == texts(translator.translate(LINES, to="ko"))


def test_each_test_set_is_translated_in_its_pair(bundles: dict[str, Path], tmp_path: Path) -> None:
    split, out = tmp_path / "split", tmp_path / "out"
    split.mkdir()
    out.mkdir()
    for name, lines in {"news": LINES[:1], "back": LINES[1:2], "unseen": LINES[1:2]}.items():
        rows = pl.DataFrame({"source": lines, "target": [LINES[0]] * len(lines)})
        rows.write_parquet(split / f"test-{name}.parquet")
    pairs = {"news": "en-de", "back": "ko-en", "unseen": "ko-de"}
    files = {name: f"test-{name}.parquet" for name in pairs}
    content = {"dev": "dev.parquet", "tests": files, "pairs": pairs, "zero_shot": ["unseen"]}
    (split / "splits.json").write_text(json.dumps(content))
    texts_of = {"name": "a", "source": "a.1", "target": "a.2"}
    config = PipelineConfig.model_validate(
        {
            "name": "many",
            "languages": {"pairs": PAIRS},
            "corpus": {
                "train": [texts_of | {"pairs": ["en-ko", "ko-en"]}, texts_of | {"name": "b", "pairs": "en-de"}],
                "dev": [texts_of | {"name": "dev", "pairs": "en-ko"}],
                "test": [texts_of | {"name": "news", "pairs": "en-de"}],
            },
            "search": QUICK.model_dump(),
            "evaluate": {
                "interval_samples": 0,
                "suites": [{"kind": "upper_case", "min_sentences": 1}],
                "must_translate": [{"source": LINES[0], "pair": "en-de"}],
            },
        }
    )
    inputs = {"export": Artifact("export", "0" * 32, bundles["source"]), "split": Artifact("split", "0" * 32, split)}
    report = run(config, inputs, out, Job(SilentReporter(), Resources()))

    translator = Translator.load(bundles["source"], QUICK)
    for name, pair in pairs.items():
        source = LINES[0] if name == "news" else LINES[1]
        found = (out / f"{name}.hypotheses.txt").read_text(encoding="utf-8")
        assert found == translator.translate(source, to=pair).text + "\n"
    assert [one.suite for one in report.suites] == ["news+upper_case", "back+upper_case"]
    assert {sample.pair for sample in report.samples} == {"en-de", "ko-en"}
    first, *others = check_sentences(config, translator)
    assert (first.pair, first.translation) == ("en-de", translator.translate(LINES[0], to="de").text)
    assert {other.pair for other in others} == set(PAIRS)
