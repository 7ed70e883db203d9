"""Rows of a job may name their target language. A row with an unknown one is not translated, and is counted."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from flows.settings import Settings
from flows.translation.job import translate_job
from flows.translation.request import TranslationRequest
from nmt_core.config import SearchConfig
from nmt_core.errors import ConfigError, DataError
from nmt_core.formats.single import Columns, kind_by_name, read_single
from nmt_core.formats.streams import open_file
from nmt_core.jobs.chunk import UNKNOWN_TARGET, translate_rows
from nmt_core.jobs.staging import SCHEMA
from nmt_core.translator import Translator

QUICK = SearchConfig(beam_size=2, max_length_offset=8, max_source_tokens=16, batch_tokens=64)
ROWS = [("the cat sees a dog.", "ko"), ("a big house", "en-de"), ("to it", "fr"), ("now", ""), ("the dog", "ko")]


@pytest.fixture(scope="module")
def bundle(into_many: Callable[..., Path], tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return into_many(tiny_bundle, tmp_path_factory.mktemp("many") / "bundle", "source", ["en-ko", "ko-en", "en-de"])


def rows(*given: tuple[str, str]) -> pl.DataFrame:
    return pl.DataFrame([(text, None, None, "", to) for text, to in given], schema=SCHEMA, orient="row")


def test_rows_keep_their_order_and_get_their_language(bundle: Path) -> None:
    translator = Translator.load(bundle, QUICK)
    done = translate_rows(rows(*ROWS), translator)
    expected = [translator.translate(text, to=to).text if to and to != "fr" else "" for text, to in ROWS]
    assert done["translation"].to_list() == expected
    assert [status == UNKNOWN_TARGET for status in done["status"]] == [False, False, True, True, False]
    with_default = translate_rows(rows(*ROWS), translator.into("de"))
    assert with_default["translation"][3] == translator.translate("now", to="de").text
    assert with_default["status"].to_list().count(UNKNOWN_TARGET) == 1


def test_a_model_for_one_pair_takes_its_own_language_only(tiny_bundle: Path) -> None:
    translator = Translator.load(tiny_bundle, QUICK)
    done = translate_rows(rows(("the cat", "ko"), ("the cat", ""), ("the cat", "de")), translator)
    assert done["translation"][0] == done["translation"][1] == translator.translate("the cat").text
    assert done["status"][2] == UNKNOWN_TARGET


def write(folder: Path, name: str) -> Path:
    file = folder / name
    if name.endswith(".jsonl"):
        lines = [json.dumps({"text": text, "lang": to or None, "p": "b"}) for text, to in ROWS]
    else:
        mark = "," if name.endswith(".csv") else "\t"
        lines = [mark.join(("p", "lang", "text")), *(mark.join(("b", to, text)) for text, to in ROWS)]
    if name.endswith(".parquet"):
        table = {"p": ["b"] * len(ROWS), "text": [text for text, _ in ROWS], "lang": [to or None for _, to in ROWS]}
        pl.DataFrame(table).write_parquet(file)
    else:
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return file


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl", "a.parquet"])
@pytest.mark.parametrize("prefix", ["", "p"])
def test_each_format_has_the_column(name: str, prefix: str, tmp_path: Path) -> None:
    with open_file(write(tmp_path, name)) as stream:
        cells = list(read_single(stream, kind_by_name(name), Columns("text", prefix, "lang"), 1 << 20))
    assert [(cell.text, cell.to or "") for cell in cells] == ROWS
    assert {cell.prefix for cell in cells} == {"b" if prefix else ""}
    with open_file(write(tmp_path, name)) as stream, pytest.raises(DataError, match=r"'language'.*--to-column"):
        list(read_single(stream, kind_by_name(name), Columns("text", "", "language"), 1 << 20))


def test_a_job_translates_into_the_languages_of_a_column(bundle: Path, tmp_path: Path) -> None:
    settings = Settings.load({"NMT_HOME": str(tmp_path / "home"), "NMT_THREADS": "1"})
    source, target = write(tmp_path, "in.tsv"), tmp_path / "out.jsonl"
    request = TranslationRequest(str(bundle), str(source), str(target), column="text", to_column="lang")
    report = translate_job(request, settings, lambda *_: None, lambda _: None)
    translator = Translator.load(bundle)
    written = pl.read_ndjson(target)
    expected = [translator.translate(text, to=to).text if to and to != "fr" else "" for text, to in ROWS]
    assert written["translation"].to_list() == expected
    assert report["by_status"][UNKNOWN_TARGET] == 2
    assert Counter(written["status"])[UNKNOWN_TARGET] == 2


def test_a_job_without_a_known_language_is_refused_before_it_begins(bundle: Path, tmp_path: Path) -> None:
    settings = Settings.load({"NMT_HOME": str(tmp_path / "home"), "NMT_THREADS": "1"})
    source, target = write(tmp_path, "in.tsv"), tmp_path / "out.tsv"
    for to, facts in (("", "--to: no target language is named.*ko, en, de"), ("fr", "--to fr.*ko, en, de")):
        request = TranslationRequest(str(bundle), str(source), str(target), column="text", to=to)
        with pytest.raises(ConfigError, match=facts):
            translate_job(request, settings, lambda *_: None, lambda _: None)
    assert not target.exists()
