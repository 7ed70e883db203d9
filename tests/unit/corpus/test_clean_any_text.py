"""For any text and options, the kept and dropped pairs are the input pairs, and a second pass drops nothing."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt_core.config import PipelineConfig
from nmt_core.corpus.funnel import CleanReport
from nmt_core.errors import StageError
from nmt_core.store.artifacts import Artifact

Pair = tuple[str, str]
DownloadOf = Callable[..., Artifact]
CleanInto = Callable[..., CleanReport]

SCORER = "a_scorer_of_any_text:fifths"
MODULE = """
import polars as pl

def fifths(pairs):
    size = pairs["source"].str.len_bytes() * 3 + pairs["target"].str.len_bytes()
    return (size % 5).cast(pl.Float64).replace(4, None)
"""
PIECES = ["dog", "Dog", "cat", "&amp;", "Ã", "©", "\ufffd", "\x85", "\u200b", " ", "  ", ".", "1", "Б", "ß", "\x00"]
PIECES += ['"', ",", "„", "“", "–", "…", "«", "\u00a0", "(", ")", "ﬁ", "½", "①", "ｅ", "e\u0301", "猫", "ＤＯＧ"]
texts = st.lists(st.sampled_from(PIECES) | st.characters(codec="utf-8"), max_size=8).map("".join)
rows = st.lists(st.tuples(texts, texts), min_size=1, max_size=12)
sections = st.fixed_dictionaries(
    {
        "unicode_form": st.sampled_from(["NFC", "NFKC"]),
        "punctuation": st.sampled_from(["as_is", "moses", "half_width", "full_width"]),
        "deduplicate": st.sampled_from(["none", "exact", "normalised"]),
        "near_duplicates": st.sampled_from([0, 0, 0, 0, 0.3, 1]),
        "max_per_source": st.integers(0, 2),
        "max_per_target": st.integers(0, 2),
        "prefer": st.sampled_from(["first", "best"]),
        "scores": st.sampled_from([[{"scorer": SCORER}], [{"scorer": SCORER, "min_score": 0, "max_score": 2}]]),
        "drop_copies": st.booleans(),
        "min_letter_share": st.sampled_from([0, 0.2]),
        "min_language_probability": st.sampled_from([0, 0, 0.2]),
        "decontaminate": st.booleans(),
        "numbers_must_match": st.booleans(),
    }
).map(lambda section: section | ({"unicode_form": "NFC"} if section["punctuation"] == "full_width" else {}))


@pytest.fixture(scope="module", autouse=True)
def scorer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("scorers")
    (folder / f"{SCORER.partition(':')[0]}.py").write_text(MODULE, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield


@settings(max_examples=20)
@given(
    news=rows,
    web=rows,
    test=rows,
    section=sections,
    languages=st.sampled_from([("en", "de"), ("de", "en"), ("cs", "fr"), ("zh", "en")]),
)
def test_nothing_vanishes_and_a_second_pass_drops_nothing(
    download_of: DownloadOf,
    clean_into: CleanInto,
    news: list[Pair],
    web: list[Pair],
    test: list[Pair],
    section: dict[str, Any],
    languages: tuple[str, str],
) -> None:
    names = {"source": languages[0], "target": languages[1]}
    config = PipelineConfig.model_validate(
        {"name": "test", "languages": names, "corpus": {"toy": {}}, "clean": section}
    )
    test = [pair for pair in test if "\x00" not in "".join(pair)]
    held_out = {("test", "test"): test} if test else {}

    def outcome(folder: Path, corpora: dict[tuple[str, str], list[Pair]]) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the kept and the dropped rows. It is a valid outcome that nothing is left."""
        try:
            clean_into(folder / "out", config, download_of(folder / "download", corpora | held_out))
        except StageError as error:
            assert "is left" in str(error)
        kept, dropped = (pl.read_parquet(sorted((folder / "out").glob(f"{name}-*"))) for name in ("train", "dropped"))
        return kept, dropped

    with tempfile.TemporaryDirectory() as name:
        kept, dropped = outcome(Path(name, "one"), {("train", "news"): news, ("train", "web"): web})
        places = kept.select("corpus", "line").rows() + dropped.select("corpus", "line").rows()
        assert sorted(places) == [("news", n + 1) for n in range(len(news))] + [("web", n + 1) for n in range(len(web))]
        assert not dropped["reason"].null_count()
        if kept.is_empty():
            return
        left = kept.select("source", "target").rows()
        kept_again, dropped_again = outcome(Path(name, "two"), {("train", "all"): left})
        assert dropped_again.rows() == []
        assert kept_again.select("source", "target").rows() == left
        assert kept_again["score_0"].to_list() == kept["score_0"].to_list()
