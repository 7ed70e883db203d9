"""The token that names the target language: reserved in the vocabulary, first on its side, and counted once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nmt_core.batches.shards import read_pairs
from nmt_core.config import LanguagesConfig, PipelineConfig
from nmt_core.errors import ConfigError, ModelError
from nmt_core.store.artifacts import Artifact
from nmt_core.tokenizer.language_tokens import NO_TOKEN, language_token, pair_for
from nmt_core.tokenizer.tokenizer import EOS_ID, Tokenizers

MANY = LanguagesConfig.model_validate({"pairs": ["en-de", "de-en", "en-pt_BR"]})
TEXT = "The tag <2de> is text in a sentence."


@pytest.fixture
def encoded(tmp_path: Path, run_until: Callable[..., dict[str, Artifact]]) -> Callable[..., dict[str, Artifact]]:
    """Encode a small text in both directions, one sentence of which holds the token as text."""
    english = [TEXT, *(f"The house <number> {number} is red." for number in range(40))]
    german = [f"Zeichen {number} ist ein rotes Haus, <2de> auch." for number in range(41)]
    for name, lines in {"en": english, "de": german}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    files = {"source": str(tmp_path / "en"), "target": str(tmp_path / "de"), "pairs": ["en-de", "de-en"]}

    def encode(tag_side: str, **options: Any) -> dict[str, Artifact]:
        config = PipelineConfig.model_validate(
            {
                "name": "tokens",
                "languages": {"pairs": ["en-de", "de-en"], "tag_side": tag_side},
                "corpus": {role: [{"name": role} | files] for role in ("train", "dev", "test")},
                "clean": {"decontaminate": False, "min_language_probability": 0, "near_duplicates": 0},
                "tokenizer": {"kind": "char", "vocab_size": 100},
                "encode": {"alignments": True} | options,
            }
        )
        return run_until(config, "encode")

    return encode


@pytest.mark.parametrize(("tag_side", "other"), [("source", "target"), ("target", "source")])
def test_the_token_is_first_on_its_side_and_no_text_spells_it(
    encoded: Callable[..., dict[str, Artifact]], tag_side: str, other: str
) -> None:
    made = encoded(tag_side)
    tokenizers = Tokenizers.load(made["tokenizer"].path)
    ids = {language: tokenizers.source.id_of(f"<2{language}>") for language in ("de", "en")}
    assert not set(ids.values()) & set(tokenizers.source.encode([TEXT])[0])
    assert tokenizers.target.decode([[ids["de"], *tokenizers.target.encode([TEXT])[0]]]) == [TEXT]
    report = made["tokenizer"].report()
    assert not any("<2" in piece for piece in report["unused_examples"])
    fits = {(fit["language"], fit["side"]): fit["lines"] for fit in report["by_language"]}
    assert set(fits) == {("en", "source"), ("de", "source"), ("en", "target"), ("de", "target")}
    assert len(set(fits.values())) == 1

    for files in (made["encode"].path.glob("train-*.parquet"), [made["encode"].path / "dev.parquet"]):
        pairs = read_pairs(sorted(files))
        marked, plain = getattr(pairs, tag_side), getattr(pairs, other)
        firsts = marked.ids[marked.starts]
        assert set(firsts.tolist()) == set(ids.values())
        assert np.isin(marked.ids, list(ids.values())).sum() == len(pairs)
        assert not np.isin(plain.ids, list(ids.values())).any()
        assert (marked.ids == EOS_ID).sum() == len(pairs)


@pytest.mark.parametrize("tag_side", ["source", "target"])
def test_links_leave_the_token_alone(encoded: Callable[..., dict[str, Artifact]], tag_side: str) -> None:
    pairs = read_pairs(sorted(encoded(tag_side)["encode"].path.glob("train-*.parquet")))
    assert pairs.links is not None
    assert pairs.links.lengths.tolist() == pairs.target.lengths.tolist()
    ends = pairs.source.lengths - 1
    for number in range(len(pairs)):
        links = pairs.links.ids[pairs.links.starts[number] :][: pairs.links.lengths[number]]
        assert links[-1] == ends[number]
        assert links.max() <= ends[number]
        if tag_side == "source":
            assert 0 not in links  # the place of the token
        else:
            assert links[0] == ends[number]


def test_the_token_counts_once_in_the_length(encoded: Callable[..., dict[str, Artifact]]) -> None:
    pairs = read_pairs(sorted(encoded("source")["encode"].path.glob("train-*.parquet")))
    longest = int(pairs.lengths.max())
    short = encoded("source", max_length=longest - 1)["encode"].report()
    assert short["dropped"] == {"too_many_tokens": int((pairs.lengths.max(axis=1) == longest).sum())}


@pytest.mark.parametrize(
    ("to", "pair"), [("de", "en-de"), ("en", "de-en"), ("pt_BR", "en-pt_BR"), ("pt-BR", "en-pt_BR"), ("de-pt_BR",) * 2]
)
def test_a_target_language_means_its_first_pair(to: str, pair: str) -> None:
    assert pair_for(MANY, to) == pair


@pytest.mark.parametrize(
    ("languages", "to", "facts"),
    [
        (MANY, "", ("no target language is named", "de, en, pt_BR", "en-de")),
        (MANY, "fr", ("to='fr'", "de, en, pt_BR")),
        (MANY, "fr-de", ("to='fr-de'", "en-de, de-en, en-pt_BR, de-pt_BR")),
        (LanguagesConfig(source="en", target="de"), "fr", ("to='fr'", "en-de only", "leave it out")),
    ],
)
def test_a_wrong_or_missing_language_is_refused_with_the_known_ones(
    languages: LanguagesConfig, to: str, facts: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigError) as refused:
        pair_for(languages, to)
    assert all(fact in str(refused.value) for fact in facts), refused.value


def test_a_model_for_one_pair_needs_no_language(encoded: Callable[..., dict[str, Artifact]]) -> None:
    one = LanguagesConfig(source="en", target="de")
    assert [pair_for(one, to) for to in ("", "de", "en-de")] == ["", "", ""]
    tokenizers = Tokenizers.load(encoded("source")["tokenizer"].path)
    assert language_token(one, "", tokenizers) == NO_TOKEN
    with pytest.raises(ModelError, match="<2pt_BR>"):
        language_token(MANY, "en-pt_BR", tokenizers)
