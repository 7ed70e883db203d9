"""What a registered model says of itself."""

from pathlib import Path

from flows.register import describe
from nmt_core.artifacts import Artifact
from nmt_core.config import PipelineConfig
from nmt_core.corpus.sources import INDEX, CorpusIndex, Role, StoredCorpus

CONFIG = PipelineConfig.model_validate(
    {"name": "test", "description": "English to German.", "corpus": {"toy": {}, "licence": "CC0"}}
)


def corpus(name: str, role: Role = "train", licence: str = "", citation: str = "", url: str = "") -> StoredCorpus:
    return StoredCorpus(role=role, name=name, licence=licence, citation=citation, url=url, files=())


def download(folder: Path, *corpora: StoredCorpus, **skipped: str) -> Artifact:
    index = CorpusIndex(corpora=corpora, on_bad_corpus="skip", skipped=skipped)
    (folder / INDEX).write_text(index.model_dump_json())
    return Artifact("download", "0" * 32, folder)


def test_each_training_corpus_is_named_with_licence_page_and_citation(tmp_path: Path) -> None:
    made = download(
        tmp_path,
        corpus("web", licence="CC-BY 4.0", url="https://host.invalid", citation="@misc{them,\n  year = 2020}"),
        corpus("news", citation="@misc{them,\n  year = 2020}"),
        corpus("dev", "dev", licence="secret"),
        gone="the server answered 404",
    )

    assert describe(CONFIG, made).splitlines() == [
        "English to German.",
        "",
        "Trained on:",
        "- web: CC-BY 4.0, https://host.invalid",
        "- news: licence not stated",
        "- gone: left out, for it could not be fetched",
        "",
        "Please cite:",
        "- @misc{them, year = 2020}",
    ]


def test_a_description_fits_into_mlflows_database_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    many = [corpus(f"corpus{number}", licence="L" * 50, citation=f"{number} " * 500) for number in range(90)]

    text = describe(CONFIG, download(tmp_path, *many))

    assert 4_000 < len(text) <= 5_000
    assert text.endswith("- and more: see `corpora.json` of the download")
    assert text.count("and more") == 1


def test_without_the_download_the_recipe_speaks_alone() -> None:
    assert describe(CONFIG, None) == "English to German.\n\nLicence of the text: CC0"
