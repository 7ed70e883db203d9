"""The toy corpus: correct Korean forms, one Korean per English, held-out sentences unseen, dirt counted exactly."""

import dataclasses
import hashlib
import random
import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt_core.corpus import toy
from nmt_core.corpus.toy import korean as ko
from nmt_core.corpus.toy import lexicon as lx
from nmt_core.corpus.toy.grammar import Grammar
from nmt_core.corpus.toy.korean import Predicate
from nmt_core.corpus.toy.words import article

GOLDEN = "6997a8e94bd0380d07dc8d6c74428501ab3c815165330eec1adc25c4d321030c"
HANGUL = re.compile("[가-힣]")


@pytest.fixture(scope="module")
def corpus() -> toy.ToyCorpus:
    return toy.generate(pairs=4000, seed=7, held_out=100)


def normal(pair: tuple[str, str]) -> tuple[str, ...]:
    return tuple(" ".join(re.sub(r"[.,?]", "", text.lower()).split()) for text in pair)


def kind_of(pair: tuple[str, str], held: set[tuple[str, ...]]) -> str:
    """Return the only filter that would drop this row."""
    english, korean = pair
    if normal(pair) in held:
        return "leak"
    if english == korean:
        return "copy"
    if "\ufffd" in korean or (not HANGUL.search(korean) and HANGUL.search(repaired(korean))):
        return "encoding"
    if HANGUL.search(english) or not HANGUL.search(korean):
        return "wrong_language"
    lengths = len(english.split()), len(korean.split())
    if max(lengths) >= 200 or (lengths[0] >= 9 and lengths[1] == 1):
        return "length"
    return "clean"


def repaired(text: str) -> str:
    return text.encode("cp1252", errors="ignore").decode("utf-8", errors="ignore")


def sorted_rows(corpus: toy.ToyCorpus) -> dict[str, list[tuple[str, str]]]:
    held = {normal(pair) for pair in corpus.dev + corpus.test}
    rows: dict[str, list[tuple[str, str]]] = {}
    seen: set[tuple[str, str]] = set()
    for pair in corpus.train:
        kind = "duplicate" if pair in seen else kind_of(pair, held)
        seen.add(pair)
        rows.setdefault(kind, []).append(pair)
    return rows


@pytest.mark.parametrize(
    ("word", "topic", "subject", "objective", "with_"),
    [
        ("학생", "학생은", "학생이", "학생을", "학생과"),
        ("의사", "의사는", "의사가", "의사를", "의사와"),
        ("나", "나는", "내가", "나를", "나와"),
        ("너", "너는", "네가", "너를", "너와"),
        ("칼", "칼은", "칼이", "칼을", "칼과"),
    ],
)
def test_particles_follow_the_final_consonant(word: str, topic: str, subject: str, objective: str, with_: str) -> None:
    assert (ko.topic(word), ko.subject(word), ko.objective(word)) == (topic, subject, objective)
    assert ko.conjunctive(word) == with_


@pytest.mark.parametrize(("word", "form"), [("공원", "공원으로"), ("학교", "학교로"), ("호텔", "호텔로")])
def test_direction_treats_rieul_as_a_vowel(word: str, form: str) -> None:
    assert ko.directional(word) == form


@pytest.mark.parametrize("word", ["", "Tom", "책."])
def test_a_particle_needs_a_hangul_syllable(word: str) -> None:
    with pytest.raises(ValueError, match="does not end in a Hangul syllable"):
        ko.topic(word)


@pytest.mark.parametrize(
    ("stem", "forms"),
    [
        ("읽", "읽는다 읽었다 읽는 읽은 읽을"),
        ("가", "간다 갔다 가는 간 갈"),
        ("마시", "마신다 마셨다 마시는 마신 마실"),
        ("돕:ㅂ", "돕는다 도왔다 돕는 도운 도울"),
        ("줍:ㅂ", "줍는다 주웠다 줍는 주운 주울"),
        ("듣:ㄷ", "듣는다 들었다 듣는 들은 들을"),
        ("닫", "닫는다 닫았다 닫는 닫은 닫을"),
        ("쓰", "쓴다 썼다 쓰는 쓴 쓸"),
        ("만들", "만든다 만들었다 만드는 만든 만들"),
        ("알", "안다 알았다 아는 안 알"),
        ("짓:ㅅ", "짓는다 지었다 짓는 지은 지을"),
        ("씻", "씻는다 씻었다 씻는 씻은 씻을"),
        ("부르:르", "부른다 불렀다 부르는 부른 부를"),
        ("고르:르", "고른다 골랐다 고르는 고른 고를"),
        ("보", "본다 봤다 보는 본 볼"),
        ("배우", "배운다 배웠다 배우는 배운 배울"),
        ("보내", "보낸다 보냈다 보내는 보낸 보낼"),
        ("뛰", "뛴다 뛰었다 뛰는 뛴 뛸"),
        ("잡", "잡는다 잡았다 잡는 잡은 잡을"),
        ("공부하", "공부한다 공부했다 공부하는 공부한 공부할"),
    ],
)
def test_verbs_conjugate(stem: str, forms: str) -> None:
    root, _, irregular = stem.partition(":")
    verb = Predicate(root, irregular)
    got = verb.present, verb.past + "다", verb.adnominal, verb.past_adnominal, verb.future_adnominal
    assert " ".join(got) == forms


@pytest.mark.parametrize(
    ("stem", "forms"),
    [
        ("크", "크다 컸다 큰"),
        ("예쁘", "예쁘다 예뻤다 예쁜"),
        ("바쁘", "바쁘다 바빴다 바쁜"),
        ("빠르:르", "빠르다 빨랐다 빠른"),
        ("게으르:르", "게으르다 게을렀다 게으른"),
        ("어렵:ㅂ", "어렵다 어려웠다 어려운"),
        ("좁", "좁다 좁았다 좁은"),
        ("하얗:ㅎ", "하얗다 하얬다 하얀"),
        ("빨갛:ㅎ", "빨갛다 빨갰다 빨간"),
        ("길", "길다 길었다 긴"),
        ("맛있", "맛있다 맛있었다 맛있는"),
        ("키가 크", "키가 크다 키가 컸다 키가 큰"),
        ("좋", "좋다 좋았다 좋은"),
    ],
)
def test_adjectives_conjugate(stem: str, forms: str) -> None:
    root, _, irregular = stem.partition(":")
    adjective = Predicate(root, irregular, is_verb=False)
    assert f"{adjective.present} {adjective.past}다 {adjective.adnominal}" == forms


def test_negation_questions_and_future() -> None:
    read, big = Predicate("읽"), Predicate("크", is_verb=False)
    assert read.finish("present", negative=True) == "읽지 않는다"
    assert read.finish("past", negative=True) == "읽지 않았다"
    assert read.finish("future") == "읽을 것이다"
    assert read.finish("future", question=True) == "읽을 것인가"
    assert read.finish("present", question=True) == "읽는가"
    assert read.finish("can", negative=True) == "읽을 수 없다"
    assert big.finish("present", negative=True) == "크지 않다"
    assert big.finish("present", negative=True, question=True) == "크지 않은가"
    assert Predicate("알").finish("past", negative=True) == "몰랐다"


def test_the_copula() -> None:
    assert ko.copula("학생", "present") == "학생이다"
    assert ko.copula("의사", "present") == "의사다"
    assert ko.copula("의사", "past") == "의사였다"
    assert ko.copula("학생", "past", question=True) == "학생이었는가"
    assert ko.copula("의사", "present", negative=True) == "의사가 아니다"
    assert ko.copula("학생", "past", negative=True) == "학생이 아니었다"
    assert ko.copula("학생", "future") == "학생이 될 것이다"


def test_english_forms() -> None:
    verbs = {verb.en: (verb.third, verb.past) for verb in (*lx.TRANSITIVE, *lx.INTRANSITIVE, *lx.MOTION, lx.HAVE)}
    assert verbs["study"] == ("studies", "studied")
    assert verbs["go back"] == ("goes back", "went back")
    assert verbs["wait for"] == ("waits for", "waited for")
    assert verbs["have"] == ("has", "had")
    phrases = ("honest man", "apple", "uniform", "useful pen")
    assert [article(p) for p in phrases] == ["an honest man", "an apple", "a uniform", "a useful pen"]


def test_the_lexicon_has_300_words_and_distinct_korean() -> None:
    assert len(lx.english_words()) >= 300
    nouns = {noun.en: noun.ko for row in lx.NOUNS.values() for noun in row}
    verbs = {v.en: v.ko for v in (*lx.TRANSITIVE, *lx.INTRANSITIVE, *lx.MOTION, *lx.GIVING)}
    adjectives = {(a.en, a.ko) for row in lx.ADJECTIVES.values() for a in row}
    assert len(set(nouns.values())) == len(nouns)
    assert len(set(verbs.values())) == len(verbs)
    assert len(adjectives) == len(dict(adjectives)) == len({ko for _, ko in adjectives})
    assert all(verb.objects for verb in lx.TRANSITIVE)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32))
def test_every_sentence_is_well_formed(seed: int) -> None:
    grammar = Grammar(random.Random(seed))
    for english, korean in (grammar.pair() for _ in range(100)):
        assert re.fullmatch(r"[A-Z][A-Za-z', ]*[.?]", english), english
        assert re.fullmatch(r"[가-힣 ]+[.?]", korean), korean
        assert english[-1] == korean[-1]
        assert "  " not in english + korean
        assert korean[:-1].endswith(("다", "가"))


def test_korean_is_a_function_of_english() -> None:
    grammar, known = Grammar(random.Random(3)), {}
    for english, korean in (grammar.pair() for _ in range(40_000)):
        assert known.setdefault(english, korean) == korean


def test_the_corpus_is_the_same_for_the_same_seed() -> None:
    def digest(seed: int) -> str:
        corpus = toy.generate(pairs=1000, seed=seed, held_out=50)
        return hashlib.sha256(repr(dataclasses.astuple(corpus)).encode()).hexdigest()

    assert digest(1) == digest(1) == GOLDEN
    assert digest(2) != digest(1)


@settings(max_examples=5)
@given(seed=st.integers(0, 2**32))
def test_held_out_sentences_are_unseen_but_their_words_are_known(seed: int) -> None:
    corpus = toy.generate(pairs=1000, seed=seed, held_out=20)
    clean = sorted_rows(corpus)["clean"]
    train = {text for pair in clean for text in pair}
    dev, test = ({text for pair in part for text in pair} for part in (corpus.dev, corpus.test))
    assert len(dev) == len(test) == 2 * 20
    assert not dev & train
    assert not test & train
    assert not dev & test
    known = {word for pair in clean for text in pair for word in toy.words_of(text)}
    assert all(word in known for text in sorted(dev | test) for word in toy.words_of(text))


def test_the_counts_are_exact_and_each_kind_is_recognised_alone(corpus: toy.ToyCorpus) -> None:
    rows = sorted_rows(corpus)
    assert len(corpus.train) == 4000
    assert len(corpus.dev) == len(corpus.test) == 100
    assert {kind: len(found) for kind, found in rows.items() if kind != "clean"} == corpus.dirt
    assert corpus.dirt == {"duplicate": 80, "copy": 40, "wrong_language": 40, "encoding": 40, "length": 40, "leak": 40}
    assert len(set(rows["clean"])) == len(rows["clean"]) == 4000 - 280


def test_rows_are_single_lines(corpus: toy.ToyCorpus) -> None:
    assert all(len(text.splitlines()) == 1 and "\t" not in text for pair in corpus.train for text in pair)


def test_few_held_out_pairs_leak_once_each() -> None:
    corpus = toy.generate(pairs=1000, seed=0, held_out=2)
    assert corpus.dirt["leak"] == 4
    assert len(corpus.train) == 1000


def test_i_am_a_student_is_learnt_and_not_held_out(corpus: toy.ToyCorpus) -> None:
    assert toy.ALWAYS_IN_TRAIN == ("I am a student.", "나는 학생이다.")
    assert Counter(corpus.train)[toy.ALWAYS_IN_TRAIN] == 1
    assert toy.ALWAYS_IN_TRAIN not in corpus.dev + corpus.test


def test_sentences_have_the_promised_length(corpus: toy.ToyCorpus) -> None:
    lengths = [len(english.split()) for english, _ in sorted_rows(corpus)["clean"]]
    assert 6 <= sum(lengths) / len(lengths) <= 9


@pytest.mark.parametrize(("pairs", "held_out"), [(999, 10), (toy.MAX_PAIRS + 1, 10), (1000, 0), (1000, 501)])
def test_numbers_out_of_range_are_named(pairs: int, held_out: int) -> None:
    with pytest.raises(ValueError, match=r"(pairs is|held_out is) \d+.*choose"):
        toy.generate(pairs=pairs, seed=0, held_out=held_out)
