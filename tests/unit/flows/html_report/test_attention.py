"""Attention and positions in the report, for each kind of model."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import polars
import pytest

from flows.html_report.attention import attention, positions
from flows.html_report.blocks import Charts, Run, Section, Text
from flows.runs.summary import RunSummary
from flows.settings import Settings
from nmt_core.config import ModelConfig
from nmt_core.models.model import TranslationModel
from nmt_core.models.transformer import Transformer
from nmt_core.recipes.recipe import load_recipe
from nmt_core.store.artifacts import REPORT, Artifact
from nmt_core.tokenizer.tokenizer import Tokenizer

FIXED = ("architecture=rnn", "tied_embeddings=none", "rnn.attention=none")


class Exported(Run):
    """Run with a bundle, or with nothing."""

    bundle: Path | None = None

    def artifact(self, stage: str) -> Artifact | None:
        return Artifact(stage, "0" * 32, self.bundle) if self.bundle else None


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Exported]:
    """Make a run of the quickstart with such a model."""

    def make(*model: str) -> Exported:
        config = load_recipe("quickstart", [f"model.{option}" for option in model])
        return Exported(
            RunSummary.begin(config, "20260101-000000-tiny-0000"), Settings.load({"NMT_HOME": str(tmp_path)})
        )

    return make


def parts(section: Section) -> tuple[str, int]:
    """Return the text, and the number of drawings."""
    text = " ".join(block.text for block in section.blocks if isinstance(block, Text))
    return text, sum(len(block.drawings) for block in section.blocks if isinstance(block, Charts))


@pytest.mark.parametrize(
    ("kind", "said", "dimensions"),
    [
        ("sinusoidal", "Sinusoids are added to the embeddings", "the first 64 of 128"),
        ("rotary", "the queries and keys of each head are rotated", "the first 32 of 32"),
    ],
)
def test_computed_positions_are_drawn_by_their_formula(
    kind: str, said: str, dimensions: str, make_run: Callable[..., Exported]
) -> None:
    text, drawings = parts(positions(make_run(f"positions={kind}")))
    assert said in text and f"The chart shows {dimensions} dimensions." in text and drawings == 1
    assert "learned" not in text


def test_learned_positions_match_the_model(
    make_run: Callable[..., Exported], tiny_tokenizer: Tokenizer, bundle_of: Callable[[TranslationModel], Path]
) -> None:
    run = make_run("positions=learned")
    assert parts(positions(run)) == ("The stage export was not part of this run.", 0)
    sizes = {"d_model": 16, "d_ff": 16, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    model = Transformer(ModelConfig.model_validate(sizes | {"positions": "learned"}), tiny_tokenizer.vocab_size)
    run.bundle = bundle_of(model.eval().requires_grad_(False))
    text, drawings = parts(positions(run))
    assert "A learned vector for each position" in text and "the first 16 of 16 dimensions" in text and drawings == 1


def test_a_recurrent_model_needs_no_positions(make_run: Callable[..., Exported]) -> None:
    assert parts(positions(make_run(*FIXED))) == ("The model is recurrent and needs no positional encoding.", 0)


def test_of_a_model_without_attention_nothing_is_missing(make_run: Callable[..., Exported]) -> None:
    """The report does not advise exporting the model again."""
    text, drawings = parts(attention(make_run(*FIXED)))
    assert "sees the source as one vector" in text and drawings == 0
    assert parts(attention(make_run())) == ("The stage export was not part of this run.", 0)


def test_where_no_sentence_can_be_read_in_a_map_that_is_said(
    make_run: Callable[..., Exported], tiny_bundle: Path, tmp_path: Path
) -> None:
    """One sentence is too short, one is too long, and one was not translated."""
    sources = ["a", "the small cat " * 20, "the small cat and a dog"]
    hypotheses = ["a dog", "the small cat and a dog", ""]
    run = make_run()
    run.bundle = Path(shutil.copytree(tiny_bundle, tmp_path / "evaluated"))
    (run.bundle / REPORT).write_text(json.dumps({"scores": [{"test_set": "news"}]}))
    columns = {"source": sources, "reference": sources, "hypothesis": hypotheses, "status": ["ok"] * 3}
    polars.DataFrame(columns).write_parquet(run.bundle / "news.sentences.parquet")
    text, drawings = parts(attention(run))
    assert text == "No sentence of the main test set has 4 to 24 tokens in both its source and its translation."
    assert drawings == 0
