import polars as pl
import pytest

from nmt_core.config import CleanConfig, LanguagesConfig
from nmt_core.corpus import filters, normalize

ENGLISH_GERMAN = LanguagesConfig(source="en", target="de")
ENGLISH_KOREAN = LanguagesConfig(source="en", target="ko")
SOUND = ("A dog runs through the woods.", "Ein Hund rennt durch den Wald.")


def verdict(
    pair: tuple[str, str], languages: LanguagesConfig = ENGLISH_GERMAN, config: CleanConfig | None = None
) -> tuple[str | None, str | None]:
    """Reason and value of one normalised pair."""
    asked = filters.filters(config or CleanConfig(), languages)
    table = pl.DataFrame({"source": [pair[0]], "target": [pair[1]]})
    table = table.with_columns(normalize.key(pl.col(side)).alias(f"{side}_key") for side in ("source", "target"))
    table = table.with_columns(reason=filters.reason(asked))
    row = table.select("reason", value=filters.value(asked)).row(0)
    return row[0], row[1]


def test_a_sound_pair_is_kept() -> None:
    assert verdict(SOUND) == (None, None)
    assert verdict(("I am a student.", "나는 학생이다."), ENGLISH_KOREAN) == (None, None)


@pytest.mark.parametrize(
    ("pair", "reason", "value"),
    [
        (("", SOUND[1]), "empty", "source"),
        ((SOUND[0], ""), "empty", "target"),
        (("", ""), "empty", "source"),
        ((SOUND[0], "Ein H\ufffdnd rennt."), "broken_encoding", "target"),
        (("word " * 151, SOUND[1]), "too_many_words", "151"),
        (("wording on " * 75, "Wortwahl zu " * 126), "too_many_words", "252"),
        ((SOUND[0], "x" * 41), "long_word", "41"),
        (("12 - 34 = a", SOUND[1]), "few_letters", "0.14"),
        (("Berlin, 1984!", "berlin 1984"), "copy", "target"),
        ((SOUND[0], "Собака бежит через лес."), "wrong_script", "0.0"),
        (("Собака бежит abcd", SOUND[1]), "wrong_script", "0.27"),
        (("Yes.", SOUND[1]), "length_ratio", "7.5"),
    ],
)
def test_each_fault_has_its_name_and_value(pair: tuple[str, str], reason: str, value: str) -> None:
    assert verdict((pair[0].strip(), pair[1].strip())) == (reason, value)


def test_thresholds_come_from_the_configuration() -> None:
    assert verdict(SOUND, config=CleanConfig(min_words=7)) == ("too_few_words", "6")
    assert verdict(SOUND, config=CleanConfig(max_words=5)) == ("too_many_words", "6")
    assert verdict(SOUND, config=CleanConfig(max_characters=29)) == ("too_many_characters", "30")
    assert verdict(SOUND, config=CleanConfig(max_word_characters=6)) == ("long_word", "7")
    assert verdict(SOUND, config=CleanConfig(min_letter_share=1)) == ("few_letters", "0.96")
    assert verdict(SOUND, config=CleanConfig(max_length_ratio=1.01)) == ("length_ratio", "1.03")
    assert verdict(("Berlin", "Berlin"), config=CleanConfig(drop_copies=False)) == (None, None)


def test_a_value_at_the_threshold_is_kept() -> None:
    exact = CleanConfig(min_words=6, max_words=6, max_characters=30, max_word_characters=7)

    assert verdict(SOUND, config=exact) == (None, None)


def test_the_length_ratio_weighs_characters_by_language() -> None:
    pair = ("I am a student at this school.", "나는 이 학교 학생.")  # 30 and 11 characters

    assert verdict(pair, ENGLISH_KOREAN, CleanConfig(max_length_ratio=2))[0] == "length_ratio"
    assert verdict(pair, ENGLISH_KOREAN, CleanConfig(max_length_ratio=2, characters_per_character=2.0)) == (None, None)


def test_swapped_sides_are_in_the_wrong_script() -> None:
    assert verdict(("나는 학생이다.", "I am a student."), ENGLISH_KOREAN) == ("wrong_script", "0.0")


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("ko", "나는 학생이다."),
        ("ja", "私はコーヒーを飲む。"),
        ("zh", "我是一个学生。"),
        ("ru", "Я студент."),
        ("uk", "Їжак і ґанок."),
        ("ar", "أنا طالب في الجامعة."),
        ("el", "Είμαι φοιτητής."),
        ("he", "אני סטודנט."),
        ("hi", "मैं एक छात्र हूँ।"),
        ("th", "ผมเป็นนักเรียน"),
        ("vi", "Tôi là một sinh viên."),
        ("de", "Größe: 5 µm, Ångström."),
    ],
)
def test_text_in_its_own_script_is_kept(language: str, text: str) -> None:
    languages = LanguagesConfig(source="en", target=language)

    assert verdict(("I am a student.", text), languages, CleanConfig(min_script_share=0.9)) == (None, None)


def test_a_language_whose_script_is_not_known_is_not_checked() -> None:
    assert "sr" not in filters.SCRIPT_OF_LANGUAGE
    assert verdict(("I am a student.", "Ја сам студент."), LanguagesConfig(source="en", target="sr")) == (None, None)


def test_text_without_spaces_has_words_too() -> None:
    languages = LanguagesConfig(source="en", target="zh")
    pair = ("This is a rather long sentence about the weather of today and of tomorrow.", "今天天气很好" * 8)

    assert verdict(pair, languages) == (None, None)
    assert verdict(pair, languages, CleanConfig(max_words=40)) == ("too_many_words", "48")


def test_every_filter_says_what_to_change() -> None:
    for rule in filters.filters(CleanConfig(), ENGLISH_GERMAN):
        section, _, knob = rule.knob.partition(".")
        assert (section == "clean" and knob in CleanConfig.model_fields) or rule.knob.startswith("the corpus")


def test_script_classes_are_disjoint_lists_of_languages() -> None:
    assert all(2 <= len(language) <= 3 for language in filters.SCRIPT_OF_LANGUAGE)
