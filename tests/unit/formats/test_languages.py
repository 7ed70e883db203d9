import pytest

from nmt_core.formats import Layout
from nmt_core.formats.languages import canonical, direction, same_language


@pytest.mark.parametrize("tag", ["de", "DE", "deu", "ger", "de-AT", "de_CH", "DE-de", "deu-Latn-DE", "de_DE.UTF-8"])
def test_tags_of_one_language_are_the_same(tag: str) -> None:
    assert same_language(tag, "de") and same_language("de", tag)


@pytest.mark.parametrize(
    ("tag", "code"), [("en", "de"), ("", "de"), ("dem", "de"), ("Die", "de"), ("de facto law", "de")]
)
def test_others_are_not(tag: str, code: str) -> None:
    assert not same_language(tag, code)


def test_codes_without_a_short_form_stay() -> None:
    assert canonical("ceb") == "ceb"
    assert canonical("cmn-Hans") == canonical("zho") == canonical("zh_TW") == "zh"


@pytest.mark.parametrize(
    ("source", "target", "way"),
    [("en-US", "deu", "forward"), ("de", "en", "backward"), ("", "de", "forward"), ("", "en", "backward"),
     ("", "", "forward"), ("en", "fr", "other")],
)  # fmt: skip
def test_a_file_may_lie_either_way(source: str, target: str, way: str) -> None:
    assert direction(source, target, Layout("en", "de")) == way
