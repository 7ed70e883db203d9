from collections.abc import Callable

import pytest

from nmt_core.corpus.cleaning.filters.scripts import SCRIPT_OF_LANGUAGE

SOUND = ("A dog runs through the woods.", "Ein Hund rennt durch den Wald.")
Verdict = Callable[..., tuple[str | None, str | None]]


def test_a_sound_pair_is_kept(verdict: Verdict) -> None:
    assert verdict(SOUND) == (None, None)
    assert verdict(("I am a student.", "나는 학생이다."), "en-ko") == (None, None)


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
        ((SOUND[0], "Собака бежит через лес."), "wrong_script", "0.0"),
        (("Собака бежит к abc", SOUND[1]), "wrong_script", "0.2"),
        (("Yes.", SOUND[1]), "length_ratio", "6.52"),
    ],
)
def test_each_fault_has_its_name_and_value(verdict: Verdict, pair: tuple[str, str], reason: str, value: str) -> None:
    assert verdict((pair[0].strip(), pair[1].strip())) == (reason, value)


def test_thresholds_come_from_the_configuration(verdict: Verdict) -> None:
    assert verdict(SOUND, min_words=7) == ("too_few_words", "6")
    assert verdict(SOUND, max_words=5) == ("too_many_words", "6")
    assert verdict(SOUND, min_characters=30) == ("too_few_characters", "29")
    assert verdict(SOUND, max_characters=29) == ("too_many_characters", "30")
    assert verdict(SOUND, max_word_characters=6) == ("long_word", "7")
    assert verdict(SOUND, min_letter_share=1) == ("few_letters", "0.96")
    assert verdict(SOUND, max_length_ratio=1.01, expected_length_ratio=1) == ("length_ratio", "1.03")


def test_a_value_at_the_threshold_is_kept(verdict: Verdict) -> None:
    exact = {"min_words": 6, "max_words": 6, "min_characters": 29, "max_characters": 30, "max_word_characters": 7}

    assert verdict(SOUND, **exact) == (None, None)


@pytest.mark.parametrize("languages", ["en-de", "en-zh"])
def test_the_longest_word_that_can_be_allowed(verdict: Verdict, languages: str) -> None:
    longest, knobs = "ha" * 500, {"max_word_characters": 1_000, "drop_copies": False, "min_script_share": 0.0}

    assert verdict((longest, longest), languages, **knobs) == (None, None)
    assert verdict((longest, f"{longest}s"), languages, **knobs) == ("long_word", "1001")


def test_the_length_ratio_weighs_characters_by_language(verdict: Verdict) -> None:
    pair = ("I am a student at this school.", "나는 이 학교 학생.")  # 30 and 11 characters

    assert verdict(pair, "en-ko", max_length_ratio=2, expected_length_ratio=1.0) == ("length_ratio", "2.73")
    assert verdict(pair, "en-ko", max_length_ratio=2) == (None, None)


def test_swapped_sides_are_in_the_wrong_script(verdict: Verdict) -> None:
    assert verdict(("나는 학생이다.", "I am a student."), "en-ko") == ("wrong_script", "0.0")


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
def test_text_in_its_own_script_is_kept(verdict: Verdict, language: str, text: str) -> None:
    assert verdict(("I am a student.", text), f"en-{language}", min_script_share=0.9) == (None, None)


def test_a_language_whose_script_is_not_known_is_not_checked(verdict: Verdict) -> None:
    assert "br" not in SCRIPT_OF_LANGUAGE
    assert verdict(("I am a student.", "Ја сам студент."), "en-br") == (None, None)


SEVERAL_SCRIPTS = {
    "sr": {"Cyrl": "Ја сам студент.", "Latn": "Ja sam student."},
    "uz": {"Latn": "Men talabaman.", "Cyrl": "Мен талабаман."},
    "kk": {"Cyrl": "Мен студентпін.", "Latn": "Men studentpin.", "Arab": "مەن ستۋدەنتپىن"},
    "pa": {"Guru": "ਮੈਂ ਵਿਦਿਆਰਥੀ ਹਾਂ", "Arab": "میں ودیارتھی ہاں"},
    "az": {"Latn": "Mən tələbəyəm.", "Cyrl": "Мән тәләбәјәм."},
    "tt": {"Cyrl": "Мин студент.", "Latn": "Min student."},
}


@pytest.mark.parametrize("language", SEVERAL_SCRIPTS)
def test_all_scripts_of_a_language_count_unless_the_recipe_names_one(language: str, verdict: Verdict) -> None:
    texts = SEVERAL_SCRIPTS[language]
    for script, text in texts.items():
        pair = ("I am a student.", text)
        assert verdict(pair, f"en-{language}") == verdict(pair, f"en-{language}_{script}") == (None, None)
        for other in texts.keys() - {script}:
            assert verdict(pair, f"en-{language}_{other}")[0] == "wrong_script"
    assert verdict(("I am a student.", "나는 학생이다."), f"en-{language}")[0] == "wrong_script"


def test_text_without_spaces_has_words_too(verdict: Verdict) -> None:
    pair = ("This is a rather long sentence about the weather of today and of tomorrow.", "今天天气很好" * 3)

    assert verdict(pair, "en-zh") == (None, None)
    assert verdict(pair, "en-zh", max_words=16) == ("too_many_words", "18")


def test_script_classes_are_disjoint_lists_of_languages() -> None:
    assert all(2 <= len(language) <= 3 for language in SCRIPT_OF_LANGUAGE)
