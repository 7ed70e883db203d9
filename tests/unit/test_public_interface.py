"""The public interface of the library: programs that translate, and their mistakes."""

import itertools
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.facts import missing

import nmt_core
from nmt_core import Translation, Translator
from nmt_core.bundle.opened import OpenBundle
from nmt_core.config import SearchConfig
from nmt_core.errors import ConfigError, DataError, ModelError
from nmt_core.models.transformer import Transformer
from nmt_core.search.forced import forced_log_probabilities
from nmt_core.search.torch_step import TorchStepper
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID

SEARCH = SearchConfig(beam_size=2, max_length_offset=8, max_source_tokens=64, batch_tokens=64)
LINES = ["the cat sees a dog.", "", "now", "a big house and a small house"]


@pytest.fixture(scope="module")
def translator(tiny_bundle: Path) -> Translator:
    return Translator.load(tiny_bundle, SEARCH)


def test_every_public_name_is_there_and_listed() -> None:
    assert all(getattr(nmt_core, name) is not None for name in nmt_core.__all__)
    assert set(nmt_core.__all__) <= set(dir(nmt_core))
    stub = Path(nmt_core.__file__).with_suffix(".pyi").read_text()
    assert sorted(line.rpartition(" ")[2] for line in stub.splitlines()) == sorted(nmt_core.__all__)
    with pytest.raises(AttributeError, match="'nmt_core' has no attribute 'Translater'"):
        nmt_core.Translater  # noqa: B018


def test_a_translator_loads_no_pytorch() -> None:
    code = "import sys; from nmt_core import Translator; print('torch' in sys.modules, 'polars' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_one_line_is_one_line(translator: Translator, tiny_bundle: Path) -> None:
    several = translator.translate(LINES)
    one = translator.translate(LINES[0])
    assert isinstance(one, Translation)
    assert one.text == several[0].text
    assert [found.text for found in translator.translate(iter(LINES))] == [found.text for found in several]
    assert Translator.load(str(tiny_bundle), SEARCH).translate(LINES[0]).text == one.text
    assert translator.translate(LINES[0], "a ").text.startswith("a")
    assert translator.translate(LINES[0], ["a "]) == translator.translate(LINES[0], "a ")


def test_a_stream_is_read_as_it_is_translated(translator: Translator) -> None:
    read: list[int] = []

    def lines() -> Iterator[str]:
        for number in itertools.count():
            read.append(number)
            yield LINES[number % len(LINES)]

    stream = translator.translate_iterable(lines(), lines_at_once=4)
    found = [next(stream).text for _ in range(6)]
    assert len(read) == 8
    expected = [one.text for one in translator.translate(LINES)]
    assert found == expected + expected[:2]
    assert list(translator.translate_iterable([])) == []
    assert [found.text for found in translator.translate_iterable(LINES[0])] == expected[:1]


def test_a_call_may_search_in_its_own_way(translator: Translator, tiny_bundle: Path) -> None:
    greedy = Translator.load(tiny_bundle, SEARCH.model_copy(update={"beam_size": 1}))
    expected = [found.text for found in greedy.translate(LINES)]
    assert [found.text for found in translator.translate(LINES, beam_size=1)] == expected
    assert [found.text for found in translator.translate_iterable(LINES, beam_size=1)] == expected
    other = translator.with_search(beam_size=1)
    assert other.search.beam_size == 1
    assert translator.search.beam_size == 2
    assert other is translator.with_search(beam_size=1)
    assert translator.with_search() is translator
    assert other.stepper is translator.stepper
    several = translator.with_search(n_best=3, beam_size=4, max_length_offset=30)
    assert max(len(found.alternatives) for found in several.translate(LINES)) == 2


def test_threads_may_share_a_translator_that_changes_its_search(tiny_bundle: Path) -> None:
    shared = Translator.load(tiny_bundle, SEARCH)
    penalties = [number / 10 for number in range(24)]  # more than are kept ready
    expected = [shared.translate("now", length_penalty=penalty) for penalty in penalties]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda penalty: shared.translate("now", length_penalty=penalty), penalties * 4))
    assert found == expected * 4


def test_scores_match_the_model(translator: Translator, tiny_model: Transformer) -> None:
    pairs = [("the cat sees a dog.", "a dog"), ("now", "the small house and a cat"), ("a house", "")]
    scores = translator.score(pairs)
    for (source, target), score in zip(pairs, scores, strict=True):
        source_ids, target_ids = (translator.tokenizers.source.encode([text])[0] for text in (source, target))
        with torch.no_grad():
            states = tiny_model(torch.tensor([[*source_ids, EOS_ID]]), torch.tensor([[BOS_ID, *target_ids]]))
            log_probs = tiny_model.output(states).log_softmax(-1)[0]
        expected = sum(log_probs[place, piece].item() for place, piece in enumerate([*target_ids, EOS_ID]))
        assert score.tokens == len(target_ids) + 1
        assert score.log_probability == pytest.approx(expected, abs=1e-3)


def test_a_model_finds_its_own_translation_as_likely_as_the_search_did(
    translator: Translator, tiny_bundle: Path
) -> None:
    plain = translator.with_search(length_penalty=0.0, beam_size=1)
    for line in ("the cat sees a dog.", "now"):
        ids = plain.search_ids(plain.tokenizers.source.encode([line]), [[]])[0][0]
        if not ids.cut:
            [log_probs] = forced(plain, tiny_bundle, line, ids.ids)
            assert sum(log_probs) == pytest.approx(ids.score, abs=1e-4)


def forced(translator: Translator, bundle: Path, line: str, target: Any) -> list[list[float]]:
    sources = translator.tokenizers.source.encode([line])
    return forced_log_probabilities(OpenBundle(bundle).whole_stepper(translator.search), sources, [list(target)])


def test_neither_company_nor_threads_change_a_score(translator: Translator, tiny_bundle: Path) -> None:
    pairs = [(source, target) for source in LINES for target in ("a dog", "", "the small house and a cat")]
    alone = [translator.score([pair])[0].log_probability for pair in pairs]
    np.testing.assert_allclose([score.log_probability for score in translator.score(pairs)], alone, atol=1e-4)
    several = Translator.load(tiny_bundle, SEARCH, threads=3)
    assert several.score(pairs) == translator.score(pairs)
    assert translator.score([]) == []


def test_a_prefix_does_not_count(tiny_bundle: Path) -> None:
    plain = Translator.load(tiny_bundle, SEARCH)
    prefixed = plain.with_search(target_prefix="a")
    [whole], [rest] = plain.score([("the cat", "a dog")]), prefixed.score([("the cat", "dog")])
    first = plain.tokenizers.target.encode(["a"])[0]
    assert rest.tokens + len(first) == whole.tokens
    assert rest.log_probability > whole.log_probability


def test_a_stepper_that_is_no_bundle_serves_too(translator: Translator, tiny_model: Transformer) -> None:
    own = Translator(TorchStepper(tiny_model), translator.tokenizers, SEARCH)
    assert own.translate(LINES[0]).text == translator.translate(LINES[0]).text
    assert own.translate(LINES[0], beam_size=1).text == translator.translate(LINES[0], beam_size=1).text
    pairs = [("the cat", "a dog"), ("now", "the small house")]
    own_scores, scores = own.score(pairs), translator.score(pairs)
    assert [score.log_probability for score in own_scores] == pytest.approx(
        [score.log_probability for score in scores], abs=1e-3
    )


WRONG: dict[str, tuple[Any, type[Exception], list[str]]] = {
    "no threads": (lambda t, b: Translator.load(b, threads=0), ConfigError, ["threads=0", "1 or more"]),
    "half a thread": (lambda t, b: Translator.load(b, threads=1.5), ConfigError, ["threads=1.5", "whole number"]),
    "another device": (lambda t, b: Translator.load(b, device="gpu"), ConfigError, ["device='gpu'", "'cpu' or 'cuda'"]),
    "None among lines": (lambda t, b: t.translate(["a", None]), DataError, ["line 2 is None", "give a str"]),
    "None": (lambda t, b: t.translate(None), DataError, ["lines=None", "give a str"]),
    "one line of bytes": (lambda t, b: t.translate(b"a"), DataError, ["lines=b'a'", "give a str"]),
    "bytes": (lambda t, b: t.translate([b"a"]), DataError, ["line 1 is b'a'", "give a str"]),
    "None in a stream": (lambda t, b: list(t.translate_iterable([None])), DataError, ["line 1 is None"]),
    "no lines at once": (
        lambda t, b: list(t.translate_iterable([], lines_at_once=0)),
        ConfigError,
        ["lines_at_once=0"],
    ),
    "another option": (lambda t, b: t.translate("a", beam=1), ConfigError, ["search.beam is not a key", "beam_size"]),
    "a wrong value": (lambda t, b: t.with_search(beam_size=0), ConfigError, ["search.beam_size=0", "at least 1"]),
    "too many prefixes": (lambda t, b: t.translate(["a"], ["b", "c"]), DataError, ["2 target prefixes for 1 line"]),
    "one prefix for many": (lambda t, b: t.translate(["a"], "b"), DataError, ["target_prefixes='b'", "give a list"]),
    "half a pair": (lambda t, b: t.score(["ab"]), DataError, ["pair 1 is 'ab'", "translation"]),
    "None in a pair": (lambda t, b: t.score([("a", None)]), DataError, ["line 2 is None"]),
    "a long pair": (lambda t, b: t.score([("a", "the " * 5_000)]), DataError, ["pair 1", "tokens", "split"]),
    "another scheme": (lambda t, b: Translator.load("hub:/some/model"), ModelError, ["hub:/some/model", "hub:/"]),
    "no folder": (lambda t, b: Translator.load("no/such/folder"), ModelError, ["no/such/folder"]),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_is_explained(mistake: str, translator: Translator, tiny_bundle: Path) -> None:
    make, kind, facts = WRONG[mistake]
    with pytest.raises(kind) as raised:
        make(translator, tiny_bundle)
    assert missing(str(raised.value), *facts) == []
