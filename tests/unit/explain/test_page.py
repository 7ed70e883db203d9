"""The page is complete, shows what the model did, and is self-contained."""

import base64
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nmt_core.config import ModelConfig, SearchConfig
from nmt_core.errors import DataError, ModelError
from nmt_core.explain.explanation import MOST_PIECES, Explanation, explain
from nmt_core.explain.page import page
from nmt_core.explain.positions import sinusoidal
from nmt_core.models.ensemble import Ensemble
from nmt_core.models.layers import sinusoidal_positions
from nmt_core.models.model import TranslationModel
from nmt_core.models.transformer import Transformer
from nmt_core.tokenizer.tokenizer import EOS_ID, Tokenizer, Tokenizers
from nmt_core.translator import Translator

LINE = "the cat sees a <b>big</b> house & it."
SEARCH = SearchConfig(copy_unknown="never", beam_size=3, max_length_offset=8)
SECTIONS = [
    "tokens",
    "embeddings",
    "positions",
    "masks",
    "encoder",
    "decoder",
    "matrices",
    "cross",
    "candidates",
    "beam",
]
VOID = {"meta", "link", "br", "img", "input"}


class Page(HTMLParser):
    """Parser that collects the content of a page, and checks that every element that is opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.sections: list[str] = []
        self.addresses: list[str] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "action", "data")]
        if tag == "section":
            self.sections.append(values["id"] or "")
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def explanation(tiny_bundle: Path) -> Explanation:
    return explain(tiny_bundle, LINE, SEARCH)


@pytest.fixture(scope="module")
def text(explanation: Explanation) -> str:
    return page(explanation, "tiny & small version 1")


def data_of(text: str) -> dict[str, Any]:
    [found] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    data: dict[str, Any] = json.loads(found)
    return data


def test_every_section_is_there_and_nothing_comes_from_elsewhere(text: str) -> None:
    found = Page(text)
    assert found.sections == SECTIONS
    assert {address[0] if address != "data:," else "" for address in found.addresses} == {"#", ""}
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(", text)
    assert "nan" not in re.sub(r"[a-z]{2}nan|nan[a-z]", "", text.split("<main>")[1].split("</main>")[0].lower())


def test_what_a_person_wrote_is_text_and_no_markup(text: str) -> None:
    assert "<b>big</b> house" not in text
    assert "&lt;b&gt;big&lt;/b&gt; house &amp; it." in text
    assert "tiny &amp; small version 1" in text


def test_it_shows_what_the_model_does(explanation: Explanation, tiny_bundle: Path) -> None:
    search = SEARCH.model_copy(update={"precision": "fp32", "n_best": 3, "alignments": "words"})
    [translated] = Translator.load(tiny_bundle, search).translate([LINE])
    assert explanation.text == translated.text == explanation.found[0].text
    assert explanation.found[0].score == pytest.approx(translated.score, abs=1e-5)
    assert [one.text for one in explanation.found[1:]] == [other.text for other in translated.alternatives]
    assert explanation.alignment == translated.alignment
    tokenizer = Tokenizers.load(tiny_bundle).source
    assert [token.id for token in explanation.source] == [*tokenizer.encode([LINE])[0], EOS_ID]
    assert [token.piece for token in explanation.source[:3]] == [
        tokenizer.piece(one.id) for one in explanation.source[:3]
    ]
    for step in explanation.steps:
        shares = [candidate.probability for candidate in step.candidates]
        assert shares == sorted(shares, reverse=True) and 0 < sum(shares) <= 1 + 1e-5
    total = sum(
        np.log(next(candidate.probability for candidate in step.candidates if candidate.is_taken))
        for step in explanation.steps
        if any(candidate.is_taken for candidate in step.candidates)
    )
    assert total >= explanation.found[0].sum - 1e-4
    assert explanation.steps[0].read.piece == "<s>"
    assert [step.said for step in explanation.steps[:-1]] == [step.read for step in explanation.steps[1:]]


def test_the_numbers_that_are_drawn_match_the_model(explanation: Explanation, text: str) -> None:
    data = data_of(text)
    for name, weights in (
        ("encoder", explanation.maps.encoder_attention),
        ("decoder", explanation.maps.decoder_attention),
        ("cross", explanation.maps.cross_attention),
    ):
        grid = data["grids"][name]
        shape = (grid["layers"], grid["heads"], len(grid["rows"]), len(grid["columns"]))
        levels = np.frombuffer(base64.b64decode(grid["levels"]), dtype=np.uint8).reshape(shape)
        assert weights is not None
        np.testing.assert_allclose(levels / 255, weights[:, :, : shape[2], : shape[3]], atol=0.5 / 255 + 1e-6)
    strip = data["strips"]["source_embedding"]
    levels = np.frombuffer(base64.b64decode(strip["levels"]), dtype=np.int8).reshape(-1, strip["width"])
    assert explanation.maps.source_embedding is not None
    np.testing.assert_allclose(
        levels / 127 * strip["greatest"], explanation.maps.source_embedding, atol=strip["greatest"] / 127
    )
    masks = data["masks"]
    assert len(masks["padding"]["columns"]) == len(explanation.source) + 3
    assert "sin(pos" in text


RECURRENT = {
    # kind: (sections between masks and candidates, what is said of it, what would be untrue of it)
    "RNNsearch": (["cross"], "softmaxj(vT tanh(W si−1 + U hj))", "Luong"),
    "dot": (["cross"], "(Luong et al. 2015, section 3.1, the score dot:", "Bahdanau et al. 2015, section 3.1"),
    "general": (["cross"], "htT Wa hs)). The decoder reads the mix together with the next word", "tanh"),
    "concat": (["cross"], "vaT tanh(Wa [ht; hs])))", "input feeding"),
    "encoder-decoder": (["vector"], "which the decoder reads at every step", "weight 0"),
    "sequence-to-sequence": (["vector"], "beginning with the last, and each token changes its state", "weight 0"),
}


@pytest.mark.parametrize("kind", RECURRENT)
def test_a_recurrent_model_is_shown_as_it_is(
    kind: str, recurrent: Callable[[str], tuple[TranslationModel, Path]], tiny_tokenizer: Tokenizer
) -> None:
    (model, folder), (sections, said, untrue) = recurrent(kind), RECURRENT[kind]
    found = explain(folder, LINE, SEARCH)
    text = page(found, "recurrent")
    [translated] = Translator.load(folder, SEARCH).translate([LINE])
    assert found.text == translated.text and found.found[0].score == pytest.approx(translated.score, abs=1e-5)
    read = Page(text)
    before = ["tokens", "embeddings", "masks"] if sections == ["cross"] else ["tokens", "masks"]
    assert read.sections == [*before, *sections, "candidates", "beam"]
    words = " ".join("".join(read.text).split())
    assert said in words and untrue not in words
    assert "√" not in words and "Vaswani et al. 2017," not in words, "nothing of a Transformer"
    data = data_of(text)
    if sections == ["vector"]:
        assert data["grids"] == data["strips"] == {}
        return
    [tokens] = tiny_tokenizer.encode([LINE])
    rows = model.source_embedding.weight[[*tokens, EOS_ID]].numpy()
    np.testing.assert_allclose(found.maps.source_embedding, rows, err_msg="not scaled")
    cross, shape = data["grids"]["cross"], (len(found.steps), len(found.source))
    assert (cross["layers"], cross["heads"], len(cross["rows"]), len(cross["columns"])) == (1, 1, *shape)
    levels = np.frombuffer(base64.b64decode(cross["levels"]), dtype=np.uint8).reshape(shape)
    np.testing.assert_allclose(levels.sum(axis=1) / 255, 1, atol=0.5 * len(found.source) / 255)


def test_an_ensemble_shows_its_first_member_and_says_so(
    tiny_model: Transformer, other_model: Transformer, bundle_of: Callable[..., Path], explanation: Explanation
) -> None:
    found = explain(bundle_of(Ensemble([tiny_model, other_model])), LINE, SEARCH)
    words = " ".join("".join(Page(page(found, "two")).text).split())
    assert "an ensemble of 2 such models" in words and "Vectors and attention belong to the first member" in words
    assert "ensemble" not in "".join(Page(page(explanation, "one")).text)
    np.testing.assert_allclose(found.maps.encoder_attention, explanation.maps.encoder_attention, atol=1e-6)


@pytest.mark.parametrize("search", [SearchConfig(beam_size=1), SearchConfig(method="sample", n_best=2)])
def test_any_search_is_explained_by_its_beam(search: SearchConfig, tiny_bundle: Path) -> None:
    found = explain(tiny_bundle, "now", search)
    assert len(found.found) <= search.beam_size
    Page(page(found, "tiny"))


def test_prefixes_are_followed(tiny_bundle: Path) -> None:
    search = SEARCH.model_copy(update={"source_prefix": "now", "target_prefix": "the small cat"})
    found = explain(tiny_bundle, "a dog sees.", search)
    [translated] = Translator.load(tiny_bundle, search.model_copy(update={"precision": "fp32"})).translate(
        ["a dog sees."]
    )
    assert found.text == translated.text and found.text.startswith("the small cat")
    assert found.found[0].score == pytest.approx(translated.score, abs=1e-5)
    padding = data_of(page(found, "tiny"))["masks"]["padding"]
    assert found.padding_2S.shape[1] == len(padding["columns"]) == len(found.source) + 3
    assert found.padding_2S.sum(axis=1).tolist() == [len(found.source), len(found.source) + 3], "the prefix is read too"


@pytest.mark.parametrize(
    ("kind", "said"),
    [("learned", "a vector that was learnt for each position"), ("rotary", "turns its queries and keys")],
)
def test_positions_are_called_what_they_are(
    kind: str, said: str, tiny_tokenizer: Tokenizer, bundle_of: Callable[[TranslationModel], Path]
) -> None:
    sizes = {"d_model": 16, "d_ff": 16, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    model = Transformer(ModelConfig.model_validate(sizes | {"positions": kind}), tiny_tokenizer.vocab_size, 2_048)
    text = page(explain(bundle_of(model.eval().requires_grad_(False)), LINE, SEARCH), "tiny")
    words = " ".join("".join(Page(text).text).split())
    assert Page(text).sections == SECTIONS
    assert said in words and "PE(pos, 2i)" not in words
    assert ("positions" in data_of(text)["strips"]) == ("sum" in data_of(text)["strips"]) == (kind == "learned")


def test_the_formula_belongs_to_the_model() -> None:
    np.testing.assert_allclose(sinusoidal(48, 30), sinusoidal_positions(48, 30).numpy(), atol=1e-6)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (" \t", "contains no text: give a sentence"),
        ("the " * 200, f"more than the {MOST_PIECES} of a page: give a shorter"),
    ],
)
def test_what_no_page_can_show_is_refused(line: str, message: str, tiny_bundle: Path) -> None:
    with pytest.raises(DataError, match=message):
        explain(tiny_bundle, line, SEARCH)


def test_no_bundle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="not a bundle"):
        explain(tmp_path, LINE, SEARCH)
