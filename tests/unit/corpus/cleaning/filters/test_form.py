"""Filters of the form of a pair: lengths, scripts, broken characters and their thresholds."""

from collections.abc import Callable

import pytest

from nmt_core.corpus.cleaning.filters.language_scripts import SCRIPT_OF_LANGUAGE

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
    longest, options = "ha" * 500, {"max_word_characters": 1_000, "drop_copies": False, "min_script_share": 0.0}

    assert verdict((longest, longest), languages, **options) == (None, None)
    assert verdict((longest, f"{longest}s"), languages, **options) == ("long_word", "1001")


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
    assert "tlh" not in SCRIPT_OF_LANGUAGE
    assert verdict(("I am a student.", "Ја сам студент."), "en-tlh") == (None, None)


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


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("lzh", "子曰學而時習之不亦說乎有朋自遠方來不亦樂乎人不知而不慍不亦君子乎有子曰其為人也孝弟而好犯上者鮮矣"),
        ("wuu", "伲搿搭个人侪欢喜到公园里向去荡荡白相相看看花草听听鸟叫搭仔邻舍隔壁讲讲闲话吃吃茶日脚过得蛮适意"),
        ("shn", "ၵူၼ်းၵူႈၵေႃႉပဵၼ်ၵူၼ်းလွတ်ႈလႅဝ်းမီးသုၼ်ႇလႄႈၵိတ်ႇသၵ်ႉသီႇမိူၼ်ၵၼ်တႄႇႁူမ်ႈၵၼ်ယူႇသဝ်းတီႈၼႂ်းလုမ်ႈၽႃႉၼႆႉ"),
        ("dz", "འགྲོ་བ་མི་རིགས་ག་ར་དབང་ཆ་འདྲ་མཏམ་འབད་སྒྱེཝ་ལས་ག་ར་གིས་གཅིག་གིས་གཅིག་ལུ་སྤུན་ཆའི་དམ་ཚིག་བསྟན་དགོས"),
        ("nod", "ᨣᩫ᩠ᨶᨴᩢ᩠ᨦᩉᩖᩣ᩠ᨿᨠᩮᩥ᩠ᨯᨾᩣᨾᩦᩋᩥᩔᩁᩓᩈ᩠ᨿᨦᨠᩢ᩠ᨶᨶᩱᩈᩢ᩠ᨠᨠᩥ᩠ᨿᩓᩈᩥᨴ᩠ᨵᩥᨴᩩᨠᨣᩫ᩠ᨶᨾᩦᨲᩫ᩠ᨶᩁᩪᩉᩓᨴᩢ᩠ᨦᨣᩬ᩠ᨿᨷᨭᩥᨷᩢ᩠ᨲᩅᩬᨦᨣᩢ᩠ᨶᩴᨯ᩠ᩅ᩠ᨿᨩᩱ"),
    ],
)
def test_a_sentence_without_spaces_is_no_long_word(verdict: Verdict, language: str, text: str) -> None:
    pair = (
        "A sentence of about the same length as its translation, with a few words more to fill it up to here.",
        text,
    )

    assert verdict(pair, f"en-{language}", min_script_share=0, max_length_ratio=20) == (None, None)
    assert verdict(pair[::-1], f"{language}-en", min_script_share=0, max_length_ratio=20) == (None, None)
    assert verdict(pair, f"en-{language}", max_words=20, min_script_share=0)[0] == "too_many_words"


def test_a_long_word_is_found_in_any_script(verdict: Verdict) -> None:
    assert verdict((SOUND[0], "狗在" + "x" * 41 + "花园"), "en-zh", min_script_share=0) == ("long_word", "41")
    far = {"min_script_share": 0, "max_length_ratio": 20, "max_repeated_words": 0}
    assert verdict((SOUND[0], "子曰" * 40), "en-de", **far) == (None, None)


def test_lengths_are_weighed_by_the_script_of_the_text(verdict: Verdict) -> None:
    english, chinese = "The dog is in the garden today, and it is asleep.", "狗今天在花园里，正在睡觉。"

    for language in ("zh", "lzh", "yue", "de"):
        assert verdict((english, chinese), f"en-{language}", min_script_share=0, max_length_ratio=2) == (None, None)
    assert verdict((english, "狗"), "en-lzh") == ("length_ratio", "16.33")


@pytest.mark.parametrize(
    ("language", "pair"),
    [
        ("zh", ('(run "git revert --continue" to continue)', '（执行 "git revert --continue" 以继续）')),
        ("zh", ('"default_transaction_isolation" is "serializable"', '"default_transaction_isolation"为"可串行化"')),
        (
            "zh",
            ("Set default_transaction_isolation to serializable", "设 default_transaction_isolation 为 serializable"),
        ),
        ("yue", ("Use --allow-unauthenticated-packages", "用 --allow-unauthenticated-packages")),
        ("ja", ("Use --allow-unauthenticated-packages here", "--allow-unauthenticated-packages を使う")),
        ("ko", ("the option max-parallel-workers is unknown", "max-parallel-workers 옵션 모름")),
    ],
)
def test_names_of_options_are_no_wrong_script(verdict: Verdict, language: str, pair: tuple[str, str]) -> None:
    assert verdict(pair, f"en-{language}", max_copied_share=1) == (None, None)
    assert verdict(pair[::-1], f"{language}-en", max_copied_share=1) == (None, None)


def test_text_with_a_character_of_its_script_may_still_be_in_another(verdict: Verdict) -> None:
    pair = ("The file cannot be opened by this program.", "Die Datei lässt sich hier nicht öffnen 了")

    assert verdict(pair, "en-zh") == ("wrong_script", "0.09")
    assert verdict((pair[0], "这 file cannot be opened by 个 program"), "en-zh", max_copied_share=1) == (None, None)


def test_script_classes_are_disjoint_lists_of_languages() -> None:
    assert all(2 <= len(language) <= 3 for language in SCRIPT_OF_LANGUAGE)
