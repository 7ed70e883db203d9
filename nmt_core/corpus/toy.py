"""A toy English-Korean parallel corpus, made by a small grammar of our own: for trying the pipeline, not for use.

The Korean is a function of the English sentence, in one register (plain 해라체, questions in -는가), so a small
Transformer can learn it almost perfectly; the dirt planted in the training rows gives every cleaning filter work.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from nmt_core.corpus import toy_lexicon as lx
from nmt_core.corpus.toy_lexicon import Noun, Predicate, Tense, Verb

Pair = tuple[str, str]
Agreement = Literal["I", "one", "many"]
T = TypeVar("T")

MIN_PAIRS = 1_000
# Beyond this the short sentence kinds run dry and the mix of kinds would drift.
MAX_PAIRS = 200_000
ALWAYS_IN_TRAIN: Pair = ("I am a student.", "나는 학생이다.")
# Planted rows per thousand training rows: 7% in all.
DIRT_PER_MILLE = {"duplicate": 20, "copy": 10, "wrong_language": 10, "encoding": 10, "length": 10, "leak": 10}
_RUN_ON_WORDS = 200
_LONG_SOURCE_WORDS = 9
_MAX_DRAWS = 20_000
FOREIGN = (
    "{name} trinkt jeden Morgen eine Tasse Kaffee.",
    "{name} wohnt in einem kleinen Haus am Fluss.",
    "Gestern hat {name} ein interessantes Buch gelesen.",
    "{name} geht heute mit dem Hund in den Park.",
    "{name} mange une pomme dans le jardin.",
    "Hier, {name} est venu avec un ami de la ville.",
    "{name} habite dans une petite maison blanche.",
    "Demain, {name} va lire un livre dans le train.",
    "{name} come una manzana todos los domingos.",
    "Ayer {name} compró un coche muy caro.",
    "{name} vive en una casa grande con su hermano.",
    "{name} lee un libro en la biblioteca.",
    "{name} сегодня читает книгу в саду.",
    "Вчера {name} купил большую машину.",
    "{name} живёт в маленьком доме у реки.",
    "{name} каждый день пьёт чай на кухне.",
)

_PRONOUNS: list[tuple[str, str, str, Agreement]] = [
    ("I", "me", "나", "I"),
    ("you", "you", "너", "many"),
    ("he", "him", "그", "one"),
    ("she", "her", "그녀", "one"),
    ("we", "us", "우리", "many"),
    ("they", "them", "그들", "many"),
]
_POSSESSIVES = [("my", "내"), ("your", "네"), ("his", "그의"), ("her", "그녀의"), ("our", "우리"), ("their", "그들의")]
_BE_PRESENT = {"I": "am", "one": "is", "many": "are"}
_POINTERS: list[tuple[str, str, bool]] = [
    ("this", "이것", False),
    ("that", "저것", False),
    ("it", "그것", False),
    ("these", "이것들", True),
    ("those", "저것들", True),
]
_SURFACE_SPOTS = [("on", "위에"), ("under", "아래에"), ("behind", "뒤에"), ("in front of", "앞에"), ("next to", "옆에")]
_BE = Verb("be", "", Predicate("있", is_verb=False))


@dataclass(frozen=True)
class ToyCorpus:
    """A generated corpus; every row is an (English, Korean) pair of one-line strings.

    `train` has exactly the rows asked for, dirt included; `dev` and `test` are held out and clean; `dirt` counts the
    rows planted in `train` by kind (the keys of `DIRT_PER_MILLE`).
    """

    train: list[Pair]
    dev: list[Pair]
    test: list[Pair]
    dirt: dict[str, int]


@dataclass(frozen=True)
class _Phrase:
    """A noun phrase in both languages; the Korean has no particle yet."""

    en: str
    ko: str
    agreement: Agreement = "one"
    counted: bool = False
    noun: Noun | None = None

    def topic(self) -> str:
        # 'Three students ...' introduces someone new, which takes the subject particle, not the topic one.
        return lx.subject(self.ko) if self.counted else lx.topic(self.ko)


@dataclass(frozen=True)
class _Mood:
    tense: Tense
    negative: bool = False
    question: bool = False

    def finish(self, predicate: Predicate) -> str:
        return predicate.finish(self.tense, self.negative, self.question)


def _join(*words: str) -> str:
    return " ".join(word for word in words if word)


def _sentence(english: str, korean: str, question: bool) -> Pair:
    mark = "?" if question else "."
    return english[0].upper() + english[1:] + mark, korean + mark


def _inflect(verb: Verb, agreement: Agreement, tense: Tense) -> str:
    if tense == "past":
        return verb.past
    return verb.third if agreement == "one" else verb.en


def _english(subject: str, agreement: Agreement, verb: Verb, rest: str, mood: _Mood, adverb: str = "") -> str:
    """The English clause without capital and mark, with do-support where questions and negation ask for it."""
    main = verb.en
    if mood.tense in ("future", "can"):
        auxiliary = "will" if mood.tense == "future" else "can"
    elif verb is _BE:
        past = "were" if agreement == "many" else "was"
        auxiliary, main = past if mood.tense == "past" else _BE_PRESENT[agreement], ""
    elif mood.negative or mood.question:
        do = "does" if agreement == "one" else "do"
        auxiliary = "did" if mood.tense == "past" else do
    else:
        return _join(subject, adverb, _inflect(verb, agreement, mood.tense), rest)
    denial = "not" if mood.negative else ""
    if mood.question:
        return _join(auxiliary, subject, denial, main, rest)
    return _join(subject, auxiliary, denial, main, rest).replace("can not ", "cannot ")


class _Grammar:
    """Draws sentences; every choice comes from one random stream."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.kinds: list[tuple[Callable[[], Pair], int]] = [
            (self.identity, 7),
            (self.description, 10),
            (self.action, 34),
            (self.movement, 16),
            (self.gift, 9),
            (self.location, 9),
            (self.possession, 6),
            (self.pointing, 4),
            (self.wh_question, 9),
        ]

    def pair(self) -> Pair:
        """One sentence with its translation."""
        makers, weights = zip(*self.kinds, strict=True)
        maker: Callable[[], Pair] = self.rng.choices(makers, weights)[0]
        return maker()

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def one(self, options: Sequence[T]) -> T:
        return self.rng.choice(options)

    def mood(self, *tenses: Tense, verb: Verb = _BE) -> _Mood:
        negative, question = self.chance(0.2), self.chance(0.2)
        tense = self.one(tenses)
        if tense == "past" and verb.past == verb.en and not (negative or question):
            tense = "present"  # 'They read a book.' would be two sentences
        return _Mood(tense, negative, question)

    # Noun phrases

    def adjective(self, noun: Noun, probability: float) -> tuple[str, str]:
        kinds = ("trait", "feeling") if noun.kind in ("job", "person") else (noun.kind,)
        options = [adjective for kind in kinds for adjective in lx.ADJECTIVES.get(kind, ())]
        if not options or not self.chance(probability):
            return "", ""
        adjective = self.one(options)
        return adjective.en, adjective.ko.adnominal

    def possessive(self) -> tuple[str, str]:
        if self.chance(0.25):
            english, korean = self.one(lx.NAMES)
            return f"{english}'s", f"{korean}의"
        return self.one(_POSSESSIVES)

    def noun_phrase(self, noun: Noun, *, definite: bool = True, new: bool = True) -> _Phrase:
        """`noun` with a determiner; `definite` and `new` say which kinds may stand before it (numbers are new)."""
        if new and noun.counter and noun.kind != "kin" and self.chance(0.15):
            return self.counted(noun)
        adjective_en, adjective_ko = self.adjective(noun, 0.25)
        many = bool(noun.plural) and noun.kind != "kin" and self.chance(0.2)
        determiner_en, determiner_ko, suffix = "", "", "들" if many and noun.animate else ""
        body = _join(adjective_en, noun.plural if many else noun.en)
        if noun.kind == "kin" or (definite and noun.plural and self.chance(0.25)):
            determiner_en, determiner_ko = self.possessive()
        elif definite and noun.plural and self.chance(0.15):
            near = self.chance(0.5)
            determiner_en = ("these" if near else "those") if many else ("this" if near else "that")
            determiner_ko, suffix = "이" if near else "저", "들" if many else ""
        elif definite and (not new or self.chance(0.5)):
            determiner_en = "the"
        elif noun.plural and not many:
            body = lx.article(body)
        agreement: Agreement = "many" if many else "one"
        return _Phrase(
            _join(determiner_en, body), _join(determiner_ko, adjective_ko, noun.ko) + suffix, agreement, noun=noun
        )

    def counted(self, noun: Noun) -> _Phrase:
        """'three big books' -> 큰 책 세 권."""
        adjective_en, adjective_ko = self.adjective(noun, 0.2)
        number_en, number_ko = self.one(lx.NUMBERS)
        korean = _join(adjective_ko, noun.ko, number_ko, noun.counter)
        return _Phrase(_join(number_en, adjective_en, noun.plural), korean, "many", counted=True, noun=noun)

    def someone(self, *, pronoun: float = 0.3) -> _Phrase:
        """A person as a subject: pronoun, name, relative, or any noun, some with a relative clause."""
        draw = self.rng.random()
        if draw < pronoun:
            english, _, korean, agreement = self.one(_PRONOUNS)
            return _Phrase(english, korean, agreement)
        if draw < pronoun + 0.2:
            return _Phrase(*self.one(lx.NAMES))
        if draw < pronoun + 0.3:
            return self.noun_phrase(self.one(lx.NOUNS["kin"]))
        if draw < pronoun + 0.5:
            return self.subject_relative()
        noun = self.one(lx.PEOPLE)
        return self.counted(noun) if self.chance(0.15) else self.noun_phrase(noun, new=False)

    def subject_relative(self) -> _Phrase:
        """'the man who reads a book' -> 책을 읽는 남자."""
        noun, many = self.one(lx.PEOPLE), self.chance(0.25)
        verb = self.one(lx.TRANSITIVE)
        item = self.noun_phrase(self.one(verb.objects))
        tense: Tense = "past" if verb.flag != "!" and verb.past != verb.en and self.chance(0.4) else "present"
        agreement: Agreement = "many" if many else "one"
        form = verb.ko.past_adnominal if tense == "past" else verb.ko.adnominal
        english = _join("the", noun.plural if many else noun.en, "who", _inflect(verb, agreement, tense), item.en)
        korean = _join(lx.objective(item.ko), form, noun.ko + ("들" if many else ""))
        return _Phrase(english, korean, agreement, noun=noun)

    def object_relative(self, noun: Noun, main: Verb) -> _Phrase | None:
        """'the book that Mina reads' -> 미나가 읽는 책, or None if no other verb takes `noun`."""
        verbs = [verb for verb in lx.TRANSITIVE if noun in verb.objects and verb is not main]
        if not verbs or noun in lx.PEOPLE:
            return None
        verb, actor = self.one(verbs), self.plain_actor()
        tense: Tense = "past" if verb.flag != "!" and verb.past != verb.en and self.chance(0.4) else "present"
        form = verb.ko.past_adnominal if tense == "past" else verb.ko.adnominal
        english = _join("the", noun.en, "that", actor.en, _inflect(verb, actor.agreement, tense))
        return _Phrase(english, _join(lx.subject(actor.ko), form, noun.ko), noun=noun)

    def plain_actor(self) -> _Phrase:
        """A short subject for a relative clause: a pronoun, a name or 'the' person."""
        draw = self.rng.random()
        if draw < 0.35:
            english, _, korean, agreement = self.one(_PRONOUNS)
            return _Phrase(english, korean, agreement)
        if draw < 0.65:
            return _Phrase(*self.one(lx.NAMES))
        noun = self.one(lx.PEOPLE)
        return _Phrase(f"the {noun.en}", noun.ko, noun=noun)

    def object_of(self, verb: Verb, subject: _Phrase, *, simple: bool = False) -> _Phrase:
        """An object that `verb` takes; `simple` keeps relative clauses out."""
        noun = self.one(verb.objects)
        if noun in lx.PEOPLE and self.chance(0.4):
            named = not any(subject.en == english for english, _ in lx.NAMES)
            if subject.noun and self.chance(0.6):
                _, english, korean, _ = self.one(_PRONOUNS)
                return _Phrase(english, korean)
            if named:
                return _Phrase(*self.one(lx.NAMES))
        if not simple and self.chance(0.15):
            return self.object_relative(noun, verb) or self.noun_phrase(noun)
        return self.noun_phrase(noun)

    # Sentences

    def time(self, tense: Tense, probability: float) -> tuple[str, str]:
        return self.one(lx.TIMES[tense]) if self.chance(probability) else ("", "")

    def place(self, *, going: Verb | None = None) -> tuple[str, str]:
        """'in the quiet park' -> 조용한 공원에서; as the goal of `going`, 'to the park' -> 공원에 or 공원으로."""
        noun = self.one(lx.NOUNS["place"])
        adjective_en, adjective_ko = self.adjective(noun, 0.15)
        preposition = "to" if going else lx.PREPOSITION[noun.en]
        korean = _join(adjective_ko, noun.ko)
        if going and going.ko.stem.startswith("돌아"):
            korean = lx.directional(korean)
        else:
            korean += "에" if going else "에서"
        return _join(preposition, "the", adjective_en, noun.en), korean

    def clause(self, subject: _Phrase, verb: Verb, rest: Pair, mood: _Mood, when: Pair = ("", "")) -> Pair:
        """Subject, verb, the rest of both sides and a time, which may stand first in a statement."""
        adverb_en, adverb_ko = "", ""
        plain = mood.tense == "present" and not (mood.negative or mood.question)
        if plain and not when[0] and verb.flag != "!" and self.chance(0.3):
            adverb_en, adverb_ko = self.one(lx.FREQUENCY)
        english_rest, korean_rest = rest
        ending = mood.finish(verb.ko)
        if when[0] and not mood.question and self.chance(0.25):
            english = _english(subject.en, subject.agreement, verb, english_rest, mood)
            korean = _join(when[1], subject.topic(), korean_rest, ending)
            first = f"{when[0][0].upper()}{when[0][1:]}, "
            return _sentence(first + english, korean, mood.question)
        english = _english(subject.en, subject.agreement, verb, _join(english_rest, when[0]), mood, adverb_en)
        return _sentence(english, _join(subject.topic(), when[1], adverb_ko, korean_rest, ending), mood.question)

    def identity(self) -> Pair:
        """'Mina is a doctor.' -> 미나는 의사다."""
        mood = self.mood("present", "present", "past", "future")
        subject = self.someone(pronoun=0.4)
        job = self.one(lx.NOUNS["job"])
        many = subject.agreement == "many" and subject.en != "you"
        adjective_en, adjective_ko = self.adjective(job, 0.4)
        body = _join(adjective_en, job.plural if many else job.en)
        english = _english(subject.en, subject.agreement, _BE, body if many else lx.article(body), mood)
        ending = lx.copula(_join(adjective_ko, job.ko), mood.tense, mood.negative, mood.question)
        return _sentence(english, _join(subject.topic(), ending), mood.question)

    def description(self) -> Pair:
        """'The book is interesting.' -> 책은 재미있다."""
        mood, when = self.mood("present", "present", "past"), ("", "")
        if self.chance(0.5):
            subject, kind = self.someone(), self.one(("trait", "feeling"))
            if kind == "feeling":
                mood = self.mood("present", "past", "future")
                when = self.time("can" if mood.tense == "present" else mood.tense, 0.4)
                when = when if when[0] != "tomorrow" or mood.tense == "future" else ("", "")
        else:
            kind = self.one([kind for kind in lx.ADJECTIVES if kind in lx.NOUNS])
            noun = self.one(lx.NOUNS[kind])
            verbs = [verb for verb in lx.TRANSITIVE if noun in verb.objects]
            relative = self.object_relative(noun, _BE) if verbs and self.chance(0.3) else None
            subject = relative or self.noun_phrase(noun, new=False)
        said = subject.en.split()
        adjective = self.one([adjective for adjective in lx.ADJECTIVES[kind] if adjective.en not in said])
        english = _english(subject.en, subject.agreement, _BE, _join(adjective.en, when[0]), mood)
        return _sentence(english, _join(subject.topic(), when[1], mood.finish(adjective.ko)), mood.question)

    def action(self) -> Pair:
        """'Mina reads a book in the park.' -> 미나는 공원에서 책을 읽는다."""
        verb, subject = self.one(lx.TRANSITIVE), self.someone()
        if verb.flag == "!":
            mood = self.mood("present", "present", "past", verb=verb)
            item = self.object_of(verb, subject)
            return self.clause(subject, verb, (item.en, lx.objective(item.ko)), mood)
        mood = self.mood("present", "past", "future", "can", verb=verb)
        placed, when = verb.flag == "+" and self.chance(0.35), self.time(mood.tense, 0.35)
        item = self.object_of(verb, subject, simple=placed or bool(when[0]))
        place_en, place_ko = self.place() if placed else ("", "")
        return self.clause(
            subject, verb, (_join(item.en, place_en), _join(place_ko, lx.objective(item.ko))), mood, when
        )

    def movement(self) -> Pair:
        """'The boy goes to the school with Tom.' -> 소년은 톰과 함께 학교에 간다."""
        subject, verbs = self.someone(), lx.INTRANSITIVE
        if self.chance(0.2):
            subject, verbs = self.noun_phrase(self.one(lx.NOUNS["animal"]), new=False), lx.BEASTLY
        going = verbs is lx.INTRANSITIVE and self.chance(0.4)
        verb = self.one(lx.MOTION if going else verbs)
        mood = self.mood("present", "past", "future", "can", verb=verb)
        place = self.place(going=verb if going else None) if going or self.chance(0.6) else ("", "")
        manner, company = ("", ""), ("", "")
        if verbs is lx.INTRANSITIVE and verb.en != "sleep" and self.chance(0.25):
            names = [name for name in lx.NAMES if name[0] != subject.en]
            english, korean = self.one(names)
            company = f"with {english}", f"{lx.conjunctive(korean)} 함께"
        elif self.chance(0.2):
            manner = self.one([row for row in lx.MANNER if not (going and row[0] in ("well", "carefully"))])
        when = self.time(mood.tense, 0.4)
        rest_en = _join(place[0], manner[0], company[0]) if going else _join(manner[0], place[0], company[0])
        return self.clause(subject, verb, (rest_en, _join(company[1], place[1], manner[1])), mood, when)

    def gift(self) -> Pair:
        """'Mina gives a book to the boy.' -> 미나는 소년에게 책을 준다."""
        verb, subject = self.one(lx.GIVING), self.someone()
        mood = self.mood("present", "past", "future", "can", verb=verb)
        item = self.noun_phrase(self.one(lx.NOUNS["thing"] + lx.NOUNS["reading"] + lx.NOUNS["fruit"]))
        if subject.noun and self.chance(0.3):
            _, english, korean, _ = self.one(_PRONOUNS)
            receiver = _Phrase(english, korean)
        else:
            receiver = self.noun_phrase(self.one(lx.PEOPLE), new=False)
        rest = _join(item.en, "to", receiver.en), _join(f"{receiver.ko}에게", lx.objective(item.ko))
        return self.clause(subject, verb, rest, mood, self.time(mood.tense, 0.3))

    def location(self) -> Pair:
        """'There is a cup on the desk.' -> 책상 위에 컵이 있다; 'The cup is ...' -> 컵은 책상 위에 있다."""
        mood = self.mood("present", "present", "past", "future")
        inside = self.chance(0.3)
        spot_en, spot_ko = ("in", "안에") if inside else self.one(_SURFACE_SPOTS)
        base = self.one(lx.CONTAINERS if inside else lx.SURFACES)
        spot_en, spot_ko = f"{spot_en} the {base.en}", f"{base.ko} {spot_ko}"
        predicate = Predicate("없" if mood.negative else "있", is_verb=False)
        ending = predicate.finish(mood.tense, question=mood.question)
        noun = self.one(lx.PORTABLE)
        if self.chance(0.5):
            item = self.noun_phrase(noun, definite=False)
            english = _english("there", item.agreement, _BE, _join(item.en, spot_en), mood)
            return _sentence(english, _join(spot_ko, lx.subject(item.ko), ending), mood.question)
        item = self.noun_phrase(noun, new=False)
        english = _english(item.en, item.agreement, _BE, spot_en, mood)
        return _sentence(english, _join(item.topic(), spot_ko, ending), mood.question)

    def possession(self) -> Pair:
        """'Tom has three dogs.' -> 톰은 개 세 마리가 있다."""
        mood = self.mood("present", "present", "past", verb=lx.HAVE)
        subject = self.someone()
        kinds = ("thing", "animal", "clothes")
        item = self.noun_phrase(self.one(lx.NOUNS[self.one(kinds)]), definite=False)
        predicate = Predicate("없" if mood.negative else "있", is_verb=False)
        ending = predicate.finish(mood.tense, question=mood.question)
        english = _english(subject.en, subject.agreement, lx.HAVE, item.en, mood)
        return _sentence(english, _join(subject.topic(), lx.subject(item.ko), ending), mood.question)

    def pointing(self) -> Pair:
        """'This is my book.' -> 이것은 내 책이다."""
        english, korean, many = self.one(_POINTERS)
        mood = self.mood("present", "present", "past")
        noun = self.one(lx.NOUNS[self.one(("thing", "reading", "animal", "clothes", "vehicle"))])
        adjective_en, adjective_ko = self.adjective(noun, 0.3)
        body = _join(adjective_en, noun.plural if many else noun.en)
        owner_en, owner_ko = self.possessive() if self.chance(0.5) else ("", "")
        thing = _join(owner_en, body) if owner_en or many else lx.article(body)
        clause = _english(english, "many" if many else "one", _BE, thing, mood)
        ending = lx.copula(_join(owner_ko, adjective_ko, noun.ko), mood.tense, mood.negative, mood.question)
        return _sentence(clause, _join(lx.topic(korean), ending), mood.question)

    def wh_question(self) -> Pair:
        """'Who reads the book?' -> 누가 책을 읽는가? and the same with what, where and when."""
        word = self.one(("who", "what", "where", "when"))
        acts = [verb for verb in lx.TRANSITIVE if verb.flag == "+"]
        verb = self.one([verb for verb in acts if word != "what" or lx.PEOPLE[0] not in verb.objects])
        tense: Tense = self.one(("past", "future") if word == "when" else ("present", "past", "future"))
        mood = _Mood(tense, question=True)
        ending, subject = mood.finish(verb.ko), self.someone()
        if word == "who":
            if verb.past == verb.en and tense == "past":
                mood, ending = _Mood("present", question=True), verb.ko.finish("present", question=True)
            item = self.noun_phrase(self.one(verb.objects))
            english = _english("who", "one", verb, item.en, replace(mood, question=False))
            return _sentence(english, _join("누가", lx.objective(item.ko), ending), question=True)
        if word == "what":
            when = self.time(tense, 0.5)
            english = _english(subject.en, subject.agreement, verb, when[0], mood)
            korean = _join(subject.topic(), when[1], "무엇을", ending)
            return _sentence(f"what {english}", korean, question=True)
        item = self.object_of(verb, subject, simple=True)
        english = _english(subject.en, subject.agreement, verb, item.en, mood)
        asked = "어디에서" if word == "where" else "언제"
        return _sentence(f"{word} {english}", _join(subject.topic(), asked, lx.objective(item.ko), ending), True)


class _Source:
    """Hands out sentence pairs that it has not handed out before."""

    def __init__(self, grammar: _Grammar) -> None:
        self.grammar = grammar
        self.seen: set[str] = set(ALWAYS_IN_TRAIN)

    def fresh(self, accept: Callable[[Pair], bool] = lambda pair: True, *, new_korean: bool = True) -> Pair:
        """A pair whose English, and with `new_korean` also whose Korean, is new and that `accept` takes.

        Raises ValueError when the grammar seems to have none left.
        """
        for _ in range(_MAX_DRAWS):
            english, korean = pair = self.grammar.pair()
            if english not in self.seen and not (new_korean and korean in self.seen) and accept(pair):
                self.seen.update(pair)
                return pair
        raise ValueError(
            f"the toy grammar gave no new sentence in {_MAX_DRAWS} draws after {len(self.seen) // 2} pairs; "
            "ask for fewer pairs or a smaller held_out"
        )


def _words(text: str) -> list[str]:
    return text.lower().replace(",", "").rstrip(".?").split()


def _held_out(source: _Source, clean: list[Pair], count: int) -> list[Pair]:
    """`count` new sentences made of words that `clean` contains, so that they test combination, not guessing."""
    known: set[str] = {word for pair in clean for text in pair for word in _words(text)}
    return [source.fresh(lambda pair: all(w in known for text in pair for w in _words(text))) for _ in range(count)]


def _wrong_language(source: _Source, rng: random.Random, index: int) -> Pair:
    english, korean = source.fresh()
    if index % 4 == 3:
        return korean, english  # the two sides swapped: the source is Korean
    name, _ = rng.choice(lx.NAMES)
    return english, rng.choice(FOREIGN).format(name=name)


def _broken_encoding(source: _Source, rng: random.Random, index: int) -> Pair:
    english, korean = source.fresh()
    if index % 2:
        # cp1252 rather than latin-1: it maps no byte to a control character that would split the line in two.
        return english, korean.encode("utf-8").decode("cp1252", errors="replace")
    lost = rng.randrange(2)
    return english, "".join(
        c if c in " ,.?" or i % 2 != lost else "\ufffd" for i, c in enumerate(korean[:-1])
    ) + "\ufffd"


def _length_outlier(source: _Source, rng: random.Random, clean: list[Pair], index: int) -> Pair:
    if index % 2:
        english, korean = source.fresh(lambda pair: len(pair[0].split()) >= _LONG_SOURCE_WORDS)
        return english, korean.split()[0] + korean[-1]
    english, korean = source.fresh()
    side, parts, words = index // 2 % 2, [], 0
    while words < _RUN_ON_WORDS:
        parts.append(rng.choice(clean)[side])
        words += len(parts[-1].split())
    return (english, " ".join(parts)) if side else (" ".join(parts), korean)


def _leak(pair: Pair, index: int) -> Pair:
    """A held-out pair as it is, or changed only in case, final mark or spaces."""
    english, korean = pair
    disguises = (
        pair,
        (english.lower(), korean),
        (english[:-1], korean[:-1]),
        (english.replace(" ", "  "), korean.replace(" ", "  ")),
    )
    return disguises[index % len(disguises)]


def _check(pairs: int, held_out: int) -> None:
    if not MIN_PAIRS <= pairs <= MAX_PAIRS:
        raise ValueError(
            f"pairs is {pairs}, but the toy grammar serves {MIN_PAIRS} to {MAX_PAIRS}; choose one of these"
        )
    if not 1 <= held_out <= pairs // 2:
        raise ValueError(f"held_out is {held_out}; with pairs = {pairs} choose a number from 1 to {pairs // 2}")


def generate(*, pairs: int, seed: int, held_out: int) -> ToyCorpus:
    """A toy corpus of `pairs` training rows and twice `held_out` held-out ones, the same for the same arguments.

    No dev or test sentence occurs, on either side, in a clean training row or in the other set, but all its words
    occur in clean training rows.  Raises ValueError if `pairs` or `held_out` is out of range.
    """
    _check(pairs, held_out)
    rng = random.Random(seed)
    source = _Source(_Grammar(rng))
    dirt = {kind: pairs * share // 1000 for kind, share in DIRT_PER_MILLE.items()}
    dirt["leak"] = min(dirt["leak"], 2 * held_out)  # each held-out pair leaks at most once
    clean = [ALWAYS_IN_TRAIN]
    clean += [source.fresh(new_korean=False) for _ in range(pairs - sum(dirt.values()) - 1)]
    held = _held_out(source, clean, 2 * held_out)
    train = clean + rng.sample(clean[1:], dirt["duplicate"])
    train += [(english, english) for english, _ in (source.fresh() for _ in range(dirt["copy"]))]
    train += [_wrong_language(source, rng, index) for index in range(dirt["wrong_language"])]
    train += [_broken_encoding(source, rng, index) for index in range(dirt["encoding"])]
    train += [_length_outlier(source, rng, clean, index) for index in range(dirt["length"])]
    train += [_leak(pair, index) for index, pair in enumerate(rng.sample(held, dirt["leak"]))]
    rng.shuffle(train)
    return ToyCorpus(train, held[:held_out], held[held_out:], dirt)
