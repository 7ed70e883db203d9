"""Facts that are found in text: corpora among files, their languages, their size, and their defects."""

import gzip
import json
import os
import struct
import zipfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.facts import raises

from nmt_core.advice import decisions, findings, recipe
from nmt_core.advice.corpora import grouped, language_of_name, role_of
from nmt_core.advice.findings import Findings, Wishes
from nmt_core.advice.machine import Machine
from nmt_core.errors import ConfigError, DataError, NmtError
from nmt_core.recipes.recipe import load_recipe
from nmt_core.stages.table import plan
from nmt_core.store.artifacts import Store

Pairs = list[tuple[str, str]]
LAPTOP = Machine(cores=2, memory=16 * 10**9, gpus=0)


def lines(pairs: Pairs, side: int) -> str:
    return "".join(f"{pair[side]}\n" for pair in pairs)


def look(*places: Path, least_pairs: int = 1_000, **wishes: Any) -> Findings:
    return findings.look([str(place) for place in places], Wishes(**wishes), least_pairs=least_pairs)


def tmx(pairs: Pairs) -> str:
    units = "".join(
        f'<tu><tuv xml:lang="en-GB"><seg>{english}</seg></tuv><tuv xml:lang="ko"><seg>{korean}</seg></tuv></tu>\n'
        for english, korean in pairs
    )
    return f'<?xml version="1.0"?>\n<tmx version="1.4"><header srclang="en"/><body>{units}</body></tmx>'


def xliff(pairs: Pairs) -> str:
    units = "".join(
        f'<trans-unit id="{number}"><source>{english}</source><target>{korean}</target></trans-unit>'
        for number, (english, korean) in enumerate(pairs)
    )
    head = '<file original="a" source-language="en" target-language="ko" datatype="plaintext">'
    return (
        '<?xml version="1.0"?><xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">'
        f"{head}<body>{units}</body></file></xliff>"
    )


def po(pairs: Pairs) -> str:
    head = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n"Language: ko\\n"\n\n'
    return head + "".join(f'msgid "{english}"\nmsgstr "{korean}"\n\n' for english, korean in pairs)


def mo(pairs: Pairs) -> bytes:
    entries = sorted([("", "Content-Type: text/plain; charset=UTF-8\nLanguage: ko\n"), *pairs])
    coded = [tuple(text.encode() for text in entry) for entry in entries]
    at, tables, texts = 28 + 16 * len(coded), [[], []], b""  # type: ignore[var-annotated]
    for side in (0, 1):
        for entry in coded:
            tables[side].append((len(entry[side]), at + len(texts)))
            texts += entry[side] + b"\0"
    head = struct.pack("<7I", 0x950412DE, 0, len(coded), 28, 28 + 8 * len(coded), 0, at)
    return head + b"".join(struct.pack("<2I", *place) for table in tables for place in table) + texts


def xml_test_set(pairs: Pairs) -> str:
    sides = [
        "".join(f'<seg id="{number}">{pair[side]}</seg>' for number, pair in enumerate(pairs, 1)) for side in (0, 1)
    ]
    return (
        '<?xml version="1.0"?><dataset id="a"><doc id="d"><src lang="en"><p>'
        f'{sides[0]}</p></src><ref lang="ko" translator="A"><p>{sides[1]}</p></ref></doc></dataset>'
    )


FORMATS: dict[str, Callable[[Pairs], str | bytes]] = {
    "text.tsv": lambda pairs: "".join(f"{english}\t{korean}\n" for english, korean in pairs),
    "named.tsv": lambda pairs: "id\ten\tko\n" + "".join(f"{n}\t{a}\t{b}\n" for n, (a, b) in enumerate(pairs)),
    "roles.csv": lambda pairs: "source,target\n" + "".join(f'"{a}","{b}"\n' for a, b in pairs),
    "nested.jsonl": lambda pairs: "".join(
        json.dumps({"translation": {"en": a, "ko": b}, "score": 1}) + "\n" for a, b in pairs
    ),
    "array.json": lambda pairs: json.dumps([{"source": a, "target": b} for a, b in pairs]),
    "memory.tmx": tmx,
    "memory.xlf": xliff,
    "program.po": po,
    "program.mo": mo,
    "set.xml": xml_test_set,
    "packed.tsv.gz": lambda pairs: gzip.compress(str(FORMATS["text.tsv"](pairs)).encode()),
}


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_gives_a_recipe_that_loads_and_a_plan(name: str, pairs: Pairs, tmp_path: Path) -> None:
    content = FORMATS[name](pairs[:400])
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    found = look(tmp_path / name, least_pairs=100)
    assert (found.languages, found.pairs) == (("en", "ko"), 400)
    assert found.sample is not None
    assert found.sample.kept_share > 0.9
    planned(found, tmp_path)


def planned(found: Findings, folder: Path) -> str:
    """Write a recipe, load it, and plan it. Returns its text."""
    text = recipe.rendered(found, decisions.decide(found, LAPTOP), ["By a test"])
    path = folder / "made.yaml"
    recipe.write(path, text, force=False)
    config = load_recipe(str(path))
    assert (config.languages.source, config.languages.target) == found.languages
    assert [stage.artifact for stage in plan(config, Store(folder / "store"))] == [None] * 9
    return text


def test_parquet_and_an_archive_and_two_files(pairs: Pairs, tmp_path: Path) -> None:
    few = pairs[:300]
    pl.DataFrame({"en": [a for a, _ in few], "ko": [b for _, b in few]}).write_parquet(tmp_path / "a.parquet")
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        for side, language in enumerate(("en", "ko")):
            archive.writestr(f"Tatoeba.en-ko.{language}", lines(few, side))
    (tmp_path / "english.txt").write_text(lines(few, 0))
    (tmp_path / "korean.txt").write_text(lines(few, 1))
    both = [tmp_path / "english.txt", tmp_path / "korean.txt"]
    for places in ([tmp_path / "a.parquet"], [tmp_path / "b.zip"], both, both[::-1]):
        found = look(*places, least_pairs=100)
        assert found.pairs == 300, places
        assert found.languages == (("ko", "en") if places == both[::-1] else ("en", "ko")), places


def test_a_folder_has_corpora_and_dev_and_test_sets(pairs: Pairs, tmp_path: Path) -> None:
    parts = {"news": pairs[:900], "talks": pairs[900:1_300], "test.2020": pairs[1_300:1_400], "valid": pairs[1_400:]}
    for name, part in parts.items():
        for side, language in enumerate(("en", "ko")):
            (tmp_path / f"{name}.{language}").write_text(lines(part, side))
    (tmp_path / "more.tsv").write_text("".join(f"{b}\t{a}\n" for a, b in pairs[:50]))
    (tmp_path / "README.md").write_text("Read me.\n")
    with raises(ConfigError, "more.tsv is in ko and en|more.tsv", "--languages"):
        (tmp_path / "other.tsv").write_text("en\tde\n" + "A red house\tEin rotes Haus\n" * 50)
        look(tmp_path)
    (tmp_path / "other.tsv").unlink()
    (tmp_path / "more.tsv").unlink()
    found = look(tmp_path)
    assert {corpus.entry["name"]: (corpus.role, corpus.pairs) for corpus in found.corpora} == {
        "news": ("train", 900),
        "talks": ("train", 400),
        "test.2020": ("test", 100),
        "valid": ("dev", 100),
    }
    assert found.languages == ("en", "ko")
    assert "README.md" in found.notes[0]
    text = planned(found, tmp_path)
    assert "split:" not in text


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("train.en", "train"),
        ("test.en", "test"),
        ("test_2016_flickr.de.gz", "test"),
        ("newstest2014.de", "test"),
        ("my-dev.tsv", "dev"),
        ("validation.jsonl", "dev"),
        ("val.en", "dev"),
        ("flores.devtest.en", "test"),
        ("latest-news.en", "train"),
        ("contest.tsv", "train"),
        ("device.en", "train"),
    ],
)
def test_roles_follow_from_names(name: str, role: str) -> None:
    assert role_of(name) == role


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("a.en", "en"),
        ("a.deu_Latn.txt.gz", "de"),
        ("Tatoeba.en-ko.ko", "ko"),
        ("a.pt_BR", "pt"),
        ("a.txt", ""),
        ("a.tsv", ""),
        ("README.md", ""),
        ("de", ""),
    ],
)
def test_languages_follow_from_names(name: str, language: str) -> None:
    assert language_of_name(Path(name)) == language


def test_halves_match_whatever_code_names_their_language(pairs: Pairs, tmp_path: Path) -> None:
    """The pair of languages in a file name is not the language of one half."""
    for stem, part in {"news.ko-en": pairs[:900], "newstest2013.ko-en": pairs[900:1_000]}.items():
        (tmp_path / f"{stem}.eng").write_text(lines(part, 0))
        (tmp_path / f"{stem}.ko").write_text(lines(part, 1))
    found = look(tmp_path, least_pairs=100)
    assert {corpus.entry["name"]: (corpus.role, corpus.pairs) for corpus in found.corpora} == {
        "news.ko-en": ("train", 900),
        "newstest2013.ko-en": ("test", 100),
    }


def test_of_several_languages_two_must_be_chosen(pairs: Pairs, tmp_path: Path) -> None:
    for language in ("en", "ko", "de"):
        (tmp_path / f"a.{language}").write_text(lines(pairs, 1 if language == "ko" else 0))
    with raises(ConfigError, "de, en, ko", "--languages"):
        grouped([str(tmp_path)], None)
    assert look(tmp_path, languages=("ko", "en")).languages == ("ko", "en")
    table = tmp_path / "b.tsv"
    table.write_text("en\tde\tko\n" + "".join(f"{a}\t{a}\t{b}\n" for a, b in pairs))
    with raises(ConfigError, "en, de, ko", "--languages"):
        look(table)
    assert look(table, languages=("en", "ko")).languages == ("en", "ko")


def wrong(name: str, pairs: Pairs, folder: Path) -> list[Path]:
    """Write text that cannot be used, and return the arguments of a user."""
    few, one = pairs[:200], folder / "a.tsv"
    content: dict[str, Callable[[], object]] = {
        "too little": lambda: one.write_text("".join(f"{a}\t{b}\n" for a, b in few)),
        "one language": lambda: one.write_text("".join(f"{a}\t{b}\n" for (a, _), (b, _) in pairwise(few))),
        "identical": lambda: one.write_text("".join(f"{a}\t{a}\n" for a, _ in few)),
        "swapped": lambda: one.write_text("en\tko\n" + "".join(f"{b}\t{a}\n" for a, b in few)),
        "one side": lambda: (folder / "a.txt").write_text(lines(few, 0)),
        "no text": lambda: (folder / "a.bin").write_bytes(bytes(range(256)) * 50),
        "empty": lambda: one.write_text(""),
        "missing": lambda: None,
        "a language that differs": lambda: one.write_text("en\tde\n" + "".join(f"{a}\t{b}\n" for a, b in few)),
        "lines that differ": lambda: [
            (folder / "x.en").write_text(lines(few, 0)),
            (folder / "x.ko").write_text(lines(few[1:], 1)),
        ],
    }
    content[name]()
    return sorted(folder.iterdir()) or [folder / "nowhere.tsv"]


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("too little", ("200 pairs", "1,000", "add text")),
        ("one language", ("both sides are in one language", "en", "--languages")),
        ("identical", ("same text in 100%", "translation")),
        ("swapped", ("swapped", "rename the columns", "--languages ko-en")),
        ("one side", ("one side", "text.en text.de")),
        ("no text", ("a.bin",)),
        ("empty", ("a.tsv", "empty")),
        ("missing", ("nowhere.tsv", "no such file", "correct the path")),
        ("a language that differs", ("target side should be in de", "ko", "--languages en-ko")),
        ("lines that differ", ("200 lines", "199")),
    ],
)
def test_text_that_cannot_be_used_is_refused_with_the_remedy(
    name: str, facts: tuple[str, ...], pairs: Pairs, tmp_path: Path
) -> None:
    with raises(NmtError, *facts) as _:
        look(*wrong(name, pairs, tmp_path))


def test_swapped_columns_are_read_as_the_user_says(pairs: Pairs, tmp_path: Path) -> None:
    table = tmp_path / "a.tsv"
    table.write_text("en\tko\n" + "".join(f"{b}\t{a}\n" for a, b in pairs))
    found = look(table, languages=("ko", "en"), columns=("en", "ko"))
    assert found.corpora[0].entry == {
        "name": "a",
        "address": str(table),
        "source_column": "en",
        "target_column": "ko",
    }
    planned(found, tmp_path)
    with raises(ConfigError, "--source-column", "file for each side"):
        (tmp_path / "x.en").write_text(lines(pairs, 0))
        (tmp_path / "x.ko").write_text(lines(pairs, 1))
        look(tmp_path / "x.en", tmp_path / "x.ko", columns=("en", "ko"))


def test_a_charset_is_named_in_the_recipe(pairs: Pairs, tmp_path: Path) -> None:
    for side, language in enumerate(("en", "ko")):
        (tmp_path / f"a.{language}").write_bytes(lines(pairs, side).encode("cp949"))
    files = [tmp_path / "a.en", tmp_path / "a.ko"]
    with raises(DataError, "invalid utf8", "--encoding"):
        look(*files)
    found = look(*files, encoding="cp949")
    assert found.corpora[0].entry["encoding"] == "cp949"


def test_large_text_is_read_in_part_and_its_size_estimated(
    pairs: Pairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(findings, "_READ_PAIRS", 2_000)
    monkeypatch.setattr(findings, "_JUDGED_PAIRS", 1_000)
    many = [pair for number in range(120) for pair in ((f"{a} {number}", f"{b} {number}") for a, b in pairs)]
    table = tmp_path / "a.tsv"
    table.write_text("".join(f"{a}\t{b}\n" for a, b in many))
    packed = tmp_path / "b.tsv.gz"
    packed.write_bytes(gzip.compress(table.read_bytes()))
    for path in (table, packed):
        found = look(path)
        assert found.sample is not None
        assert not found.sample.is_whole
        assert found.sample.judged == 2_000  # the least of a corpus
        assert abs(found.pairs / len(many) - 1) < 0.1, path
        assert "about" in found.corpora[0].about
        assert found.sample.kept.equals(look(path).sample.kept)  # type: ignore[union-attr]
        assert not found.sample.kept.equals(look(path, seed=2).sample.kept)  # type: ignore[union-attr]


def test_copies_and_dirt_count_against_the_text(pairs: Pairs, tmp_path: Path) -> None:
    rows = [
        *pairs[:1_000],
        *pairs[:500],
        *((a, "") for a, _ in pairs[1_000:1_250]),
        *((a, a) for a, _ in pairs[1_250:]),
    ]
    (tmp_path / "a.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in rows))
    found = look(tmp_path / "a.tsv", least_pairs=500)
    assert found.sample is not None
    assert set(found.sample.reasons) >= {"empty", "copy", "duplicate"}
    assert abs(found.kept_pairs - 1_000) < 30


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "text.tsv")
    with raises(DataError, "text.tsv", "is a pipe or a device", "name a file"):
        look(tmp_path / "text.tsv")


def test_columns_of_one_name_in_parquet_are_named(tmp_path: Path) -> None:
    pq.write_table(pa.table([["now"], ["jetzt"]], ["text", "text"]), tmp_path / "a.parquet")
    with raises(DataError, "a.parquet", "2 columns are called 'text'", "rename"):
        look(tmp_path / "a.parquet")
