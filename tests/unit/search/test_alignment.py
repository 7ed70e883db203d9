"""Alignments: each piece belongs to its word, and each link comes from the attention, even if a line is split."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt_core.config import SearchConfig
from nmt_core.errors import ModelError
from nmt_core.search.alignment import Aligner, Alignment, joined, links_of, words_of_pieces
from nmt_core.search.attention import AttentionGraph
from nmt_core.search.hypothesis import Hypothesis
from nmt_core.search.step import pad_sources
from nmt_core.tokenizer.tokenizer import BOS_ID, Tokenizer
from nmt_core.translator import Translator

SEARCH = SearchConfig(beam_size=3, max_length_offset=8, max_source_tokens=16, batch_tokens=64, precision="fp32")
LINES = ["the cat sees a dog.", "", "a big house and a small house", "now", "나는 학생 이다.", "to it to it"]
LONG = "the cat sees a dog. now the dog runs to it! a big house and a small house. it runs now."


def aligning(folder: Path, alignments: str = "words", **changes: object) -> Translator:
    return Translator.load(folder, SEARCH.model_copy(update={"alignments": alignments, **changes}))


@pytest.mark.parametrize(
    ("pieces", "text", "expected"),
    [
        (["▁I", "▁am", "▁a", "▁stu", "dent", "."], "I am a student.", [0, 1, 2, 3, 3, 3]),
        (["▁", "나", "는", "▁학생", "이다", "."], " 나는 \u3000학생이다.", [0, 0, 0, 1, 1, 1]),
        (["I", "▁am"], "I am", [0, 1]),
        (["▁나", "▁는", "▁학생", "▁이다"], "나는 학생이다", [0, 0, 1, 1]),  # cut at more places than spaces
        (["▁a", "▁the", "▁b", "."], "a\x07 the \x07 b.", [0, 1, 3, 3]),  # what is invisible is not read
        (["<0xEB>", "<0x82>", "<0x98>", "▁b", "▁c"], "나 bc", [0, 0, 0, 1, 1]),
        (["▁ab", "▁c", "▁"], "ab c", [0, 1, 1]),
        (["▁x", "<unk>"], "", [0, 0]),
        ([], "a b", []),
    ],
)
def test_pieces_belong_to_words(pieces: list[str], text: str, expected: list[int]) -> None:
    assert words_of_pieces(pieces, text) == expected


WORDS = st.lists(st.text("abcdehmnot나는학생.ﬁ①é\u0301", min_size=1, max_size=6), max_size=8)


@given(words=WORDS, gaps=st.lists(st.sampled_from([" ", "  ", "\u3000"]), min_size=8, max_size=8))
@settings(max_examples=300)
def test_no_text_loses_count(words: list[str], gaps: list[str], tiny_tokenizer: Tokenizer) -> None:
    text = "".join(word + gap for word, gap in zip(words, gaps, strict=False))
    [ids] = tiny_tokenizer.encode([text.replace("\u3000", " ")])
    numbers = words_of_pieces([tiny_tokenizer.piece(index) for index in ids], text)
    assert len(numbers) == len(ids)
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(len(text.split())))


@given(words=st.lists(st.text("abc", min_size=1, max_size=5), min_size=1, max_size=8), data=st.data())
def test_characters_are_counted_where_marks_do_not_help(words: list[str], data: st.DataObject) -> None:
    pieces, expected = [], []
    for number, word in enumerate(words):
        cut = data.draw(st.integers(0, len(word)))
        parts = [part for part in (word[:cut], word[cut:]) if part]
        pieces += [f"▁{part}" for part in parts]
        expected += [number] * len(parts)
    assert words_of_pieces(pieces, " ".join(words)) == expected


def test_parts_are_joined_in_their_order() -> None:
    parts = [
        Alignment(((0, 1), (1, 0)), ("▁a", "▁b"), ("▁c", "▁d")),
        Alignment((), ("▁e",)),
        Alignment(((0, 0),), ("▁f",), ("▁g",)),
    ]
    whole = joined(parts)
    assert whole == Alignment(((0, 1), (1, 0), (3, 2)), ("▁a", "▁b", "▁e", "▁f"), ("▁c", "▁d", "▁g"))
    assert whole.of_words("ab e f", "c d g").pharaoh == "0-0 0-1 2-2"


def test_each_position_is_linked_to_what_it_takes_most_of() -> None:
    weights = np.array([[0.1, 0.8, 0.1], [0.7, 0.2, 0.1], [0.2, 0.7, 0.1], [0.1, 0.2, 0.7]], dtype=np.float32)
    assert links_of(weights) == ((0, 1), (1, 0), (1, 2))  # the last attends to the mark
    assert links_of(np.zeros((0, 3), dtype=np.float32)) == links_of(np.zeros((3, 0), dtype=np.float32)) == ()


def test_links_match_the_attention(tiny_bundle: Path) -> None:
    """Links are found without a batch, from the graph that returns attention. The first two ids are a tag."""
    source, target = [5, 9, 30, 31, 32, 40], (50, 51, 52)
    [[found]] = Aligner(tiny_bundle / "fp32", 64).align([source], [[Hypothesis(target, -1.0)]], skipped=2)
    maps = AttentionGraph(tiny_bundle / "fp32").run(pad_sources([source]), np.array([[BOS_ID, *target]]))
    assert maps.cross_attention is not None
    weights = maps.cross_attention[0].mean(axis=(0, 1))  # there are two layers
    expected = {(int(weights[place, 2:].argmax()), place) for place in range(3)}
    assert set(found.links) == {link for link in expected if link[0] < 4} and len(found.links) > 1
    assert (found.ids, found.score) == (target, -1.0)


def test_neither_company_nor_the_size_of_batches_changes_links(tiny_bundle: Path) -> None:
    generator = np.random.default_rng(1)
    sources = [generator.integers(4, 100, size).tolist() for size in (3, 9, 1, 14)]
    found = [[Hypothesis(tuple(generator.integers(4, 100, size).tolist()), 0.0) for size in (5, 0, 2)] for _ in sources]
    small, large = (Aligner(tiny_bundle / "fp32", size).align(sources, found, 0) for size in (1, 10_000))
    assert small == large
    assert sum(len(one.links) for of_source in small for one in of_source) > 10
    assert {one.links for of_source in small for one in of_source if not one.ids} == {()}


def test_a_translation_says_which_words_belong_together(tiny_bundle: Path) -> None:
    plain, found = Translator.load(tiny_bundle, SEARCH).translate(LINES), aligning(tiny_bundle).translate(LINES)
    assert [one.text for one in found] == [one.text for one in plain]
    assert {one.alignment for one in plain} == {None}
    for line, one in zip(LINES, found, strict=True):
        if not line:
            assert one.alignment is None
            continue
        assert one.alignment and one.alignment.links
        assert {target for _, target in one.alignment.links} <= set(range(len(one.text.split())))
        assert all(source < len(line.split()) for source, _ in one.alignment.links)


def test_pieces_match_the_text(tiny_bundle: Path) -> None:
    for line, one in zip(LINES, aligning(tiny_bundle, "pieces").translate(LINES), strict=True):
        if one.alignment:
            assert "".join(one.alignment.source).replace("▁", " ").strip() == line
            assert "".join(one.alignment.target).replace("▁", " ").strip() == one.text
            assert {target for _, target in one.alignment.links} <= set(range(len(one.alignment.target)))


def test_all_of_several_translations_are_aligned(tiny_bundle: Path) -> None:
    found = aligning(tiny_bundle, beam_size=5, n_best=3, max_length_offset=30).translate([*LINES, "the dog", "sees"])
    assert max(len(one.alternatives) for one in found) == 2
    for other in (other for one in found for other in one.alternatives):
        assert other.alignment and other.alignment.links
        assert all(target < len(other.text.split()) for _, target in other.alignment.links)


def test_a_line_that_is_split_counts_on(tiny_bundle: Path) -> None:
    """The links of each sentence equal its links alone, shifted to the right."""
    translator = aligning(tiny_bundle)
    sentences = ["the cat sees a dog.", "now the dog runs to it!", "a big house and a small house.", "it runs now."]
    assert " ".join(sentences) == LONG
    *alone, whole = translator.translate([*sentences, LONG])
    assert whole.status in {"split", "unfinished"} and {one.status for one in alone} <= {"ok", "unfinished"}
    expected, source, target = set(), 0, 0
    for sentence, one in zip(sentences, alone, strict=True):
        assert one.alignment
        expected |= {(left + source, right + target) for left, right in one.alignment.links}
        source += len(sentence.split())
        target += len(one.text.split())
    assert whole.alignment and set(whole.alignment.links) == expected


def test_a_line_that_is_cut_is_aligned_as_far_as_it_was_read(tiny_bundle: Path) -> None:
    [found] = aligning(tiny_bundle, long_lines="cut").translate(["  the\u3000" + "cat sees " * 20])
    assert found.status == "cut"
    assert found.alignment and max(source for source, _ in found.alignment.links) < 16


def test_a_tag_before_the_source_is_no_word(tiny_bundle: Path) -> None:
    [found] = aligning(tiny_bundle, source_prefix="the dog").translate(["cat sees"])
    assert found.alignment and {source for source, _ in found.alignment.links} <= {0, 1}


def test_a_bundle_of_an_earlier_version_translates_and_says_why_it_does_not_align(
    tiny_bundle: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tiny_bundle, tmp_path / "bundle"))
    description = json.loads((folder / "config.json").read_text())
    for name in ("attention.onnx", "alignment.onnx"):
        (folder / "fp32" / name).unlink()
        del description["sha256"][f"fp32/{name}"]
    (folder / "config.json").write_text(json.dumps(description))
    assert Translator.load(folder, SEARCH).translate(LINES) == Translator.load(tiny_bundle, SEARCH).translate(LINES)
    with pytest.raises(ModelError, match=r"alignment\.onnx: missing: .* export it again .* search\.alignments=none"):
        aligning(folder)


def test_a_damaged_graph_is_refused(tiny_bundle: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_bundle, tmp_path / "bundle"))
    with (folder / "fp32/alignment.onnx").open("ab") as file:
        file.write(b"\x00\x00")
    with pytest.raises(ModelError, match=r"alignment\.onnx: "):
        aligning(folder)
