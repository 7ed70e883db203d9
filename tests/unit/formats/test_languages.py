"""Tags of languages: which are the same, and which fit each other."""

import pytest

from nmt_core.config.language_codes import Tag, parse_tag
from nmt_core.formats import Layout
from nmt_core.formats.languages import canonical, direction, fit, same_language


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


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("zho_Hans", Tag("zh", "Hans")), ("zh-cmn-Hant-TW", Tag("zh", "Hant", "TW")), ("zh-yue", Tag("yue")),
        ("sr@latin", Tag("sr", "Latn")), ("sr_RS@latin", Tag("sr", "Latn", "RS")), ("pt_br", Tag("pt", "", "BR")),
        ("es-419", Tag("es", "", "419")), ("de_DE.UTF-8", Tag("de", "", "DE")), ("ca@valencia", Tag("ca")),
        ("English", None), ("", None), ("e", None),
    ],
)  # fmt: skip
def test_parts_of_a_tag(text: str, tag: Tag | None) -> None:
    assert parse_tag(text) == tag


@pytest.mark.parametrize(
    ("tag", "wanted"),
    [("no", "nb"), ("nb", "no"), ("nn", "no"), ("fil", "tl"), ("tgl_Latn", "fil"), ("azj_Latn", "az"), ("pt", "pt_BR"),
     ("zh-TW", "zh_Hant"), ("zh_HK", "zh_Hant"), ("zh", "zh_Hant"), ("sr", "sr_Latn"), ("sr_ME", "sr_Latn"),
     ("als_Latn", "sq"), ("ekk", "et"), ("plt_Latn", "mg"), ("hr", "sh")],
)  # fmt: skip
def test_tags_that_fit(tag: str, wanted: str) -> None:
    assert same_language(tag, wanted)


@pytest.mark.parametrize(
    ("tag", "wanted"),
    [("nn", "nb"), ("pt_PT", "pt_BR"), ("zh-CN", "zh_Hant"), ("sr_Cyrl", "sr_Latn"), ("hr", "sr"), ("yue", "zh"),
     ("uz_Cyrl", "uz_Latn"), ("id", "ms")],
)  # fmt: skip
def test_tags_that_do_not_fit(tag: str, wanted: str) -> None:
    assert not same_language(tag, wanted)


def test_the_tag_that_says_the_same_fits_best() -> None:
    assert fit("nb", "nb") > fit("no", "nb")
    assert fit("pt_BR", "pt_BR") > fit("pt", "pt_BR")
    assert fit("zho_Hant", "zh_Hant") > fit("zh", "zh_Hant")
