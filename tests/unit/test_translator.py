"""A bundle translates any text, line by line, without torch. A damaged one is refused."""

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import CHRF

from nmt_core.bundle.folder import sha256_of
from nmt_core.config import SearchConfig
from nmt_core.corpus.normalize import normalise
from nmt_core.errors import ConfigError, DataError, ModelError
from nmt_core.search.hypothesis import length_penalty
from nmt_core.spelling import UnicodeForm
from nmt_core.translator import Translator, _tidied

QUICK = SearchConfig(beam_size=2, max_length_offset=8, max_source_tokens=16, batch_tokens=64)
LINES = ["the cat sees a dog.", "", "나는 학생 이다.", "now", " \t ", "a big house and a small house", "to it to it"]


@pytest.fixture(scope="module")
def translator(tiny_bundle: Path) -> Translator:
    return Translator.load(tiny_bundle, QUICK)


@pytest.fixture
def broken(tiny_bundle: Path, tmp_path: Path) -> Path:
    """Copy of the bundle, to be damaged."""
    return Path(shutil.copytree(tiny_bundle, tmp_path / "bundle"))


def describe(folder: Path, **changes: object) -> None:
    """Change keys of config.json."""
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def test_each_line_has_its_translation_in_order(translator: Translator) -> None:
    together = translator.translate(LINES)
    alone = [translator.translate([line])[0] for line in LINES]
    assert [one.text for one in together] == [one.text for one in alone]
    assert [one.score for one in together] == pytest.approx([one.score for one in alone], abs=1e-4, nan_ok=True)
    assert len({one.text for one in together}) > 3


@pytest.mark.parametrize(
    "line", ["", " ", "\t \u3000", "\n", "\x00", "\x07\x1b", " \x00 ", "\u200d\ufe0f", "\u3164 \u2800"]
)
def test_a_line_without_text_is_empty_and_never_reaches_the_model(line: str, translator: Translator) -> None:
    lonely = Translator(None, translator.tokenizers, QUICK)  # type: ignore[arg-type]
    [found] = lonely.translate([line])
    assert (found.text, found.status, found.tokens) == ("", "empty", 0)
    assert math.isnan(found.score)


def test_a_search_that_is_set_later_is_the_one_that_is_used(tiny_bundle: Path) -> None:
    short = QUICK.model_copy(update={"max_length_offset": 1, "max_length_factor": 0.0})
    translator, from_the_start = Translator.load(tiny_bundle, QUICK), Translator.load(tiny_bundle, short)
    ids, given = translator.tokenizers.source.encode(LINES[:1]), [[]]
    before = translator.search_ids(ids, given)
    translator.search = short
    assert translator.search_ids(ids, given) == from_the_start.search_ids(ids, given) != before


def test_no_lines(translator: Translator) -> None:
    assert translator.translate([]) == []


def test_a_long_line_is_cut_and_says_so_if_that_is_wanted(tiny_bundle: Path) -> None:
    cutting = Translator.load(tiny_bundle, QUICK.model_copy(update={"long_lines": "cut"}))
    within, beyond = cutting.translate(["the " * 16, "the " * 50_000])
    assert within.status in {"ok", "unfinished"}
    assert beyond.status == "cut"
    assert beyond.text == within.text


def test_a_target_without_end_says_so(translator: Translator) -> None:
    found = translator.translate(["the cat", "a dog", "a small house", "now", "sees", "house and dog", "to it"])
    assert {one.status for one in found} == {"unfinished", "ok"}
    assert all(one.tokens > QUICK.max_length_offset for one in found if one.status == "unfinished")


@pytest.mark.parametrize("line", ["the cat\nsees", "\tthe\u00a0cat\r\nsees ", "\ufeffthe c\u00adat \x07 sees"])
def test_white_space_and_invisible_characters_change_nothing(line: str, translator: Translator) -> None:
    assert translator.translate([line]) == translator.translate(["the cat sees"])


NO_ENTITY_AND_NO_MOJIBAKE = st.characters(exclude_categories=("Cs",), exclude_characters="&").filter(
    lambda character: not "\x7f" < character < "\u0100" and character not in "€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"
)


@settings(max_examples=200)
@given(st.text(NO_ENTITY_AND_NO_MOJIBAKE), st.sampled_from(["NFC", "NFKC"]))
def test_text_is_tidied_as_the_training_text_was(line: str, form: UnicodeForm) -> None:
    assert _tidied(line, form) == normalise(polars.Series([line]), form)[0]


@settings(max_examples=60)
@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=40), max_size=6))
def test_any_text_gives_one_line_per_line(translator: Translator, lines: list[str]) -> None:
    found = translator.translate(lines)
    assert len(found) == len(lines)
    for one in found:
        assert "".join(one.text.splitlines()) == one.text
        assert one.score <= 0 or one.status in ("empty", "unknown", "partly_unknown")
        assert one.tokens <= QUICK.max_source_tokens + QUICK.max_length_offset or one.status in (
            "split",
            "unfinished",
            "unknown",
            "partly_unknown",
        )
        one.text.encode()


def test_further_translations_come_with_the_best(tiny_bundle: Path) -> None:
    options = {"beam_size": 4, "max_length_offset": 30}
    several = Translator.load(tiny_bundle, changed(n_best=3, **options)).translate(LINES)
    assert [one.text for one in several] == [
        one.text for one in Translator.load(tiny_bundle, changed(**options)).translate(LINES)
    ]
    assert max(len(one.alternatives) for one in several) == 2
    for one in several:
        assert all(other.score <= one.score and other.text != one.text for other in one.alternatives)
        assert one.status != "empty" or not one.alternatives


def changed(**options: object) -> SearchConfig:
    return SearchConfig.model_validate(QUICK.model_dump() | options)


def test_a_source_prefix_comes_before_every_line(translator: Translator, tiny_bundle: Path) -> None:
    prefixed = Translator.load(tiny_bundle, changed(source_prefix="the big"))
    assert prefixed.translate(["cat", "", "house sees"]) == translator.translate(
        ["the big cat", "", "the big house sees"]
    )


def test_a_line_has_the_room_that_the_source_prefix_leaves(tiny_bundle: Path) -> None:
    cutting = changed(long_lines="cut", source_prefix="the big")
    prefixed = Translator.load(tiny_bundle, cutting)
    tokens = len(prefixed.tokenizers.source.encode(["the big"])[0])
    [found] = prefixed.translate(["the " * 16])
    [expected] = Translator.load(tiny_bundle, QUICK).translate(["the big" + " the" * (16 - tokens)])
    assert (found.text, found.status) == (expected.text, "cut")
    splitting = Translator.load(tiny_bundle, changed(source_prefix="the big"))
    assert splitting.translate(["the cat sees a dog. " * 9])[0].status in ("split", "unfinished")


def test_every_translation_begins_as_it_has_to(tiny_bundle: Path) -> None:
    free, tagged = (Translator.load(tiny_bundle, changed(target_prefix=text)) for text in ("", "house"))
    lines = ["the cat", "", "a dog sees", "now"]
    assert [one.text[:5] for one in tagged.translate(lines)] == ["house", "", "house", "house"]
    assert tagged.translate(lines) == free.translate(lines, ["house"] * 4)
    own = free.translate(lines, ["to it", "", "", "small"])
    assert [own[0].text[:5], own[3].text[:5]] == ["to it", "small"]
    assert own[1:3] == free.translate(lines)[1:3]
    assert tagged.translate(lines, ["to it", "", "", "small"])[0].text.startswith("house to it")
    with pytest.raises(DataError, match="2 target prefixes for 4 lines: give one for each"):
        free.translate(lines, ["a", "b"])


def test_of_a_line_that_is_split_the_first_sentence_has_its_prefix(tiny_bundle: Path) -> None:
    free, tagged = (Translator.load(tiny_bundle, changed(target_prefix=text)) for text in ("", "house"))
    sentences = ["the cat sees a dog.", "now!", "a big house and a small house."] * 2
    line = " ".join(sentences)
    [whole] = free.translate([line], ["house"])
    assert whole.text == " ".join(
        one.text for one in free.translate(sentences, ["house", "", "", "", "", ""]) if one.text
    )
    [whole] = tagged.translate([line])
    assert whole.text == " ".join(one.text for one in tagged.translate(sentences))


def test_a_long_prefix_takes_no_room_from_the_translation(tiny_bundle: Path) -> None:
    short = Translator.load(tiny_bundle, changed(max_length_factor=0.0, max_length_offset=3, max_source_tokens=90))
    prefix = "a big house and a small house sees a dog"
    [free], [found] = short.translate(["the cat"]), short.translate(["the cat"], [prefix])
    assert found.text.startswith(prefix)
    assert 0 < found.tokens - len(short.tokenizers.target.encode([prefix])[0]) <= 3 and free.tokens <= 3


def test_a_prefix_that_cannot_be_spelt_is_left_out_and_said(translator: Translator) -> None:
    lines = ["the cat", "", "a dog sees", "now", "the cat sees a dog. " * 9]
    free, found = translator.translate(lines), translator.translate(lines, ["\u03a9", "\u03a9", "", "to", "to \u03a9"])
    statuses = ["prefix_unknown", "empty", free[2].status, "ok", "prefix_unknown"]
    assert ["ok" if one.status == "unfinished" else one.status for one in found] == [
        "ok" if status == "unfinished" else status for status in statuses
    ]
    assert [one.text for one in found[:3]] == [one.text for one in free[:3]] and found[4].text == free[4].text
    assert found[3].text.startswith("to")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"source_prefix": "<2\u03a9>"},
            r"search\.source_prefix='<2\u03a9>': the tokenizer has no pieces for all of it",
        ),
        ({"target_prefix": "\u03a9"}, r"search\.target_prefix='\u03a9': the tokenizer has no pieces for all of it"),
        (
            {"source_prefix": "the " * 16},
            r"search\.source_prefix=.* has 16 tokens, and search\.max_source_tokens=16 leaves",
        ),
    ],
)
def test_a_prefix_that_cannot_be_is_refused(options: dict[str, str], message: str, tiny_bundle: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        Translator.load(tiny_bundle, changed(**options))


def test_samples_are_the_same_whatever_the_batch_and_the_thread(tiny_bundle: Path) -> None:
    options = {"method": "sample", "n_best": 2}
    found = Translator.load(tiny_bundle, changed(**options)).translate(LINES * 4)
    assert found[: len(LINES)] * 4 == found, "the same line gives the same sample"
    others = Translator.load(tiny_bundle, changed(batch_tokens=16, **options), threads=3).translate(LINES[::-1])[::-1]
    assert [one.text for one in others] == [one.text for one in found[: len(LINES)]]
    assert [one.alternatives[0].text for one in others if one.text] == [
        one.alternatives[0].text for one in found[: len(LINES)] if one.text
    ]
    reseeded = Translator.load(tiny_bundle, changed(seed=2, **options)).translate(LINES)
    assert [one.text for one in reseeded] != [one.text for one in found[: len(LINES)]]


def test_threads_change_nothing(translator: Translator, tiny_bundle: Path) -> None:
    threaded = Translator.load(tiny_bundle, QUICK, threads=3)
    assert threaded.translate(LINES * 10) == translator.translate(LINES * 10)


def test_the_search_comes_with_the_bundle(broken: Path) -> None:
    assert Translator.load(broken).search == SearchConfig()
    (broken / "search.json").write_text(SearchConfig(beam_size=7).model_dump_json())
    assert Translator.load(broken).search.beam_size == 7
    assert Translator.load(broken, SearchConfig(beam_size=3)).search.beam_size == 3


def change_a_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def other_tokenizer(folder: Path) -> None:
    (folder / "text.txt").write_text("a rather different text, of other words\n" * 50)
    sentencepiece.SentencePieceTrainer.Train(
        input=str(folder / "text.txt"),
        model_prefix=str(folder / "spm"),
        vocab_size=40,
        model_type="bpe",
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        minloglevel=2,
    )


def other_tokenizer_with_its_hash(folder: Path) -> None:
    other_tokenizer(folder)
    hashes = json.loads((folder / "config.json").read_text())["sha256"]
    describe(folder, sha256={**hashes, "spm.model": sha256_of(folder / "spm.model")})


def no_graph_with_its_hash(folder: Path) -> None:
    (folder / "fp32/step.onnx").write_bytes(b"no graph")
    hashes = json.loads((folder / "config.json").read_text())["sha256"]
    describe(folder, sha256={**hashes, "fp32/step.onnx": sha256_of(folder / "fp32/step.onnx")})


def half_a_graph_with_its_hash(folder: Path) -> None:
    content = (folder / "fp32/encoder.onnx").read_bytes()
    (folder / "fp32/encoder.onnx").write_bytes(content[: len(content) // 2])
    hashes = json.loads((folder / "config.json").read_text())["sha256"]
    describe(folder, sha256={**hashes, "fp32/encoder.onnx": sha256_of(folder / "fp32/encoder.onnx")})


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no folder": (shutil.rmtree, r"bundle: not a bundle, .* name the folder"),
    "no description": (lambda folder: (folder / "config.json").unlink(), r"has no config\.json: name the folder"),
    "no encoder": (lambda folder: (folder / "fp32/encoder.onnx").unlink(), r"encoder\.onnx: missing .* export"),
    "no step": (lambda folder: (folder / "fp32/step.onnx").unlink(), r"step\.onnx: missing .* export"),
    "no tokenizer": (lambda folder: (folder / "spm.model").unlink(), r"spm\.model: missing .* export"),
    "changed encoder": (
        lambda folder: change_a_byte(folder / "fp32/encoder.onnx"),
        r"encoder\.onnx: .* its sha256 is .* has",
    ),
    "changed step": (lambda folder: change_a_byte(folder / "fp32/step.onnx"), r"step\.onnx: .* its sha256 is .* has"),
    "changed weights": (
        lambda folder: change_a_byte(folder / "fp32/weights.bin"),
        r"weights\.bin: .* its sha256 is .* has",
    ),
    "half a step": (
        lambda folder: (folder / "fp32/step.onnx").write_bytes(b""),
        r"step\.onnx: .* its sha256 is .* has",
    ),
    "other tokenizer": (other_tokenizer, r"spm\.model: .* its sha256 is .* has"),
    "tokenizer of another model": (other_tokenizer_with_its_hash, r"has 40 pieces, but the model has 100"),
    "no graph": (no_graph_with_its_hash, r"step\.onnx: onnxruntime .* cannot load it"),
    "half a graph": (half_a_graph_with_its_hash, r"encoder\.onnx: onnxruntime .* cannot load it"),
    "no hashes": (lambda folder: describe(folder, sha256={}), r"spm\.model: .* its sha256 is .* has None"),
    "unknown format": (
        lambda folder: describe(folder, format=2),
        r"format 2 is unknown to this version, which reads 3",
    ),
    "unknown key": (lambda folder: describe(folder, colour="red"), r"config\.json: damaged \(colour is no known key"),
    "no JSON": (
        lambda folder: (folder / "config.json").write_text("{"),
        r"config\.json: damaged \(whole file is not JSON",
    ),
    "wrong search": (
        lambda folder: (folder / "search.json").write_text('{"beam_size": 0}'),
        r"search\.json: beam_size",
    ),
    "half a search": (lambda folder: (folder / "search.json").write_text('{"beam'), r"search\.json: .*is not JSON"),
    "unknown search": (lambda folder: (folder / "search.json").write_text('{"beams": 2}'), r"search\.json: beams"),
    "no text for a search": (lambda folder: (folder / "search.json").write_bytes(b"\xff\xfe"), r"search\.json: "),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_bundle_is_refused(damage: str, broken: Path) -> None:
    harm, message = DAMAGES[damage]
    harm(broken)
    with pytest.raises(ModelError, match=message):
        Translator.load(broken)


def test_files_that_the_bundle_does_not_name_are_not_read(translator: Translator, broken: Path) -> None:
    expected = translator.translate(LINES)
    kept = (broken / "spm.model").read_bytes()
    other_tokenizer(broken)
    for name in ("spm.source.model", "spm.target.model"):
        shutil.copy(broken / "spm.model", broken / name)
    (broken / "spm.model").write_bytes(kept)
    assert Translator.load(broken, translator.search).translate(LINES) == expected


def test_a_graph_of_another_model_among_those_that_a_bundle_need_not_have_is_refused(broken: Path) -> None:
    hashes = json.loads((broken / "config.json").read_text())["sha256"]
    describe(broken, sha256={name: of_it for name, of_it in hashes.items() if name != "fp32/alignment.onnx"})
    with pytest.raises(ModelError, match=r"alignment\.onnx: .* its sha256 is .* has None"):
        Translator.load(broken, SearchConfig(alignments="words"))


GREEDY = QUICK.model_copy(update={"beam_size": 1})


def test_who_wants_no_scores_gets_the_same_translations(tiny_bundle: Path) -> None:
    with_scores, without = (
        Translator.load(tiny_bundle, GREEDY, scores=scores).translate(LINES) for scores in (True, False)
    )
    assert [(one.text, one.status) for one in without] == [(one.text, one.status) for one in with_scores]
    assert all(math.isnan(one.score) for one in without)
    assert [math.isnan(one.score) for one in with_scores] == [one.status == "empty" for one in with_scores]


@pytest.mark.parametrize("search", [QUICK, SearchConfig(method="sample", max_length_offset=4)])
def test_a_search_that_ranks_by_scores_has_them_even_if_they_are_not_requested(
    search: SearchConfig, tiny_bundle: Path
) -> None:
    wanted, unwanted = (
        Translator.load(tiny_bundle, search, scores=scores).translate(LINES) for scores in (True, False)
    )
    assert unwanted == wanted


def test_a_bundle_from_before_there_was_a_step_without_scores_still_translates(broken: Path) -> None:
    expected = Translator.load(broken, GREEDY).translate(LINES)
    hashes = json.loads((broken / "config.json").read_text())["sha256"]
    (broken / "fp32/unscored_step.onnx").unlink()
    describe(broken, sha256={name: digest for name, digest in hashes.items() if "unscored" not in name})
    assert Translator.load(broken, GREEDY, scores=False).translate(LINES) == expected


def test_a_bundle_from_before_there_was_a_step_of_the_whole_vocabulary_still_draws(broken: Path) -> None:
    search = SearchConfig(method="sample", n_best=2, max_length_offset=4)
    expected = Translator.load(broken, search).translate(LINES)
    (broken / "fp32/whole_step.onnx").unlink()
    with pytest.raises(ModelError, match=r"whole_step\.onnx: missing"):
        Translator.load(broken, search)
    hashes = json.loads((broken / "config.json").read_text())["sha256"]
    describe(broken, sha256={name: digest for name, digest in hashes.items() if "whole" not in name})
    found = Translator.load(broken, search).translate(LINES)
    assert [(one.text, one.status) for one in found] == [(one.text, one.status) for one in expected]


def test_a_damaged_step_without_scores_is_refused_where_it_is_needed(broken: Path) -> None:
    change_a_byte(broken / "fp32/unscored_step.onnx")
    assert Translator.load(broken, GREEDY).translate(["the cat"])
    with pytest.raises(ModelError, match=r"unscored_step\.onnx: .* its sha256 is .* has"):
        Translator.load(broken, GREEDY, scores=False)


def test_a_search_beyond_the_positions_is_refused(tiny_bundle: Path) -> None:
    with pytest.raises(ConfigError, match=r"search\.max_source_tokens=2040 .* need 2,091 positions, .* 2,048"):
        Translator.load(tiny_bundle, SearchConfig(max_source_tokens=2_040))


WITHOUT_TORCH = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in set(sys.argv[2].split(",")):
            raise ImportError(f"{name} is not installed here")

sys.meta_path.insert(0, Refuse())
from pathlib import Path
from nmt_core.spelling import UnicodeForm
from nmt_core.translator import Translator
print(Translator.load(Path(sys.argv[1])).translate(["the cat sees a dog."])[0].text)
"""


def test_it_runs_without_torch_and_the_rest_of_the_pipeline(tiny_bundle: Path) -> None:
    refused = "torch,prefect,mlflow,polars,pyarrow,filelock,onnx,onnxscript,safetensors,sacrebleu,yaml,httpx,rich,typer"
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(tiny_bundle), refused], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == Translator.load(tiny_bundle).translate(["the cat sees a dog."])[0].text
    assert result.stderr == ""


SENTENCES = ["the cat sees a dog.", "now it runs to a house.", "a big house and a small house."]


def test_a_line_of_several_sentences_is_translated_sentence_by_sentence(translator: Translator) -> None:
    translator = translator.with_search(max_source_tokens=99)  # so that the line is not too long
    alone = [one.text for one in translator.translate(SENTENCES)]
    [line, cell] = translator.translate([" ".join(SENTENCES), "\r\n\n  ".join(SENTENCES)], split_sentences="always")
    assert line.text == " ".join(alone)
    assert cell.text == "\r\n\n  ".join(alone)
    assert line.status == cell.status and line.score == pytest.approx(cell.score)
    never = translator.translate(" ".join(SENTENCES), split_sentences="never")
    assert never == translator.translate(" ".join(SENTENCES)) != line  # no record of its rows: as before


def test_the_record_of_the_bundle_decides_whether_lines_are_split(broken: Path) -> None:
    free = translate_with(broken, 0.05, SENTENCES)
    assert free == translate_with(broken, 0.05, SENTENCES, split_sentences="always")
    several = translate_with(broken, 0.3, SENTENCES)
    assert several == translate_with(broken, 0.3, SENTENCES, split_sentences="never") != free


def translate_with(folder: Path, share: float, sentences: list[str], **search: object) -> str:
    describe(folder, rows_with_several_sentences=share)
    return Translator.load(folder, changed(max_source_tokens=99)).translate(" ".join(sentences), **search).text


@pytest.mark.parametrize("method", ["beam", "sample"])
def test_translations_of_a_line_are_made_of_its_sentences_translations(method: str, tiny_bundle: Path) -> None:
    search = changed(beam_size=4, n_best=3, method=method, max_length_offset=12, split_sentences="always")
    translator = Translator.load(tiny_bundle, search)
    line = translator.translate(" ".join(SENTENCES))
    own = [{one.text, *(other.text for other in one.alternatives)} for one in translator.translate(SENTENCES)]
    combined = {" ".join((a, b, c)) for a in own[0] for b in own[1] for c in own[2]}
    assert len(line.alternatives) == 2 and {other.text for other in line.alternatives} <= combined
    if method == "beam":
        assert line.score >= line.alternatives[0].score >= line.alternatives[1].score
    assert len({line.text, *(other.text for other in line.alternatives)}) == 3


def test_alignments_of_a_line_match_its_sentences(tiny_bundle: Path) -> None:
    translator = Translator.load(tiny_bundle, changed(alignments="words", split_sentences="always"))
    line = translator.translate("\n".join(SENTENCES))
    assert line.alignment and line.alignment.links
    source, target, expected = 0, 0, []
    for sentence, one in zip(SENTENCES, translator.translate(SENTENCES), strict=True):
        assert one.alignment
        expected += [(source + a, target + b) for a, b in one.alignment.links]
        source, target = source + len(sentence.split()), target + len(one.text.split())
    assert list(line.alignment.links) == expected


@pytest.mark.parametrize(
    ("line", "copied", "status"),
    [
        ("the cat sees 😀", " 😀", "partly_unknown"),
        ("😀 the cat sees", "😀 ", "partly_unknown"),
        ("the cat https://x.org/😀?a=b sees", " https://x.org/😀?a=b ", "partly_unknown"),
        ("😀 2024-05!", "😀 2024-05!", "unknown"),
        ("你好", "你好", "unknown"),
    ],
)
def test_what_cannot_be_spelled_is_copied(line: str, copied: str, status: str, translator: Translator) -> None:
    found = translator.translate(line)
    assert copied in found.text and found.status in (status, "unfinished")
    assert status == "partly_unknown" or found.text == line
    left = translator.translate(line, copy_unknown="never")
    assert copied not in left.text and left.status in (status, "unfinished")


def test_unknown_marks_within_a_sentence_do_not_cut_it(translator: Translator) -> None:
    found = translator.translate("the cat “sees” a dog. ”")
    assert found.text.startswith(translator.translate("the cat sees a dog.").text)
    assert found.text.endswith(" ”") and "“" not in found.text


@pytest.mark.parametrize("method", ["sample", "beam"])
def test_the_candidate_is_chosen_that_is_most_like_the_others(tiny_bundle: Path, method: str) -> None:
    search = QUICK.model_copy(update={"method": method, "beam_size": 6, "n_best": 6, "temperature": 1.5})
    plain = Translator.load(tiny_bundle, search)
    reranked = plain.with_search(rerank="mbr", candidates=6, n_best=2)
    metric, moved = CHRF(), 0
    for line in LINES:
        candidates, found = plain.translate(line).choices, reranked.translate(line)
        weights = [1.0] * len(candidates)
        if method == "beam":
            penalties = [length_penalty(one.tokens + 1, search.length_penalty) for one in candidates]
            if found.status == "unfinished":  # without an end mark
                penalties = [length_penalty(one.tokens, search.length_penalty) for one in candidates]
            weights = [math.exp(one.score * own) for one, own in zip(candidates, penalties, strict=True)]
        expected = {
            one.text: sum(
                weight * metric.sentence_score(one.text, [other.text]).score
                for other, weight in zip(candidates, weights, strict=True)
            )
            for one in candidates
        }
        if found.status == "empty":
            continue
        assert expected[found.text] == pytest.approx(max(expected.values()), rel=1e-6)
        assert found.score == pytest.approx(next(one.score for one in candidates if one.text == found.text), abs=1e-4)
        assert len(found.choices) == min(2, len(expected))
        moved += found.text != candidates[0].text
    assert moved, "the first candidate is not always the one that is chosen"
    together = [one.text for one in reranked.translate(LINES)]
    assert together == [reranked.translate(line).text for line in LINES]


def test_sentences_of_a_line_are_reranked_one_by_one(tiny_bundle: Path) -> None:
    search = QUICK.model_copy(
        update={"method": "sample", "rerank": "mbr", "candidates": 8, "split_sentences": "always"}
    )
    translator = Translator.load(tiny_bundle, search)
    first, second = translator.translate("the cat sees a dog."), translator.translate("a big house.")
    both = translator.translate("the cat sees a dog. a big house.")
    assert both.text == f"{first.text} {second.text}"
