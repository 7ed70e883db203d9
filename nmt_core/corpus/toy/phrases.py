"""Generate phrases of the toy grammar in both languages, and the English clause around them.

The phrases answer who, what, where and when.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from nmt_core.corpus.toy import korean as ko
from nmt_core.corpus.toy import lexicon as lx
from nmt_core.corpus.toy.korean import Predicate, Tense
from nmt_core.corpus.toy.words import Noun, Verb, article

Pair = tuple[str, str]
Agreement = Literal["I", "one", "many"]
T = TypeVar("T")

PRONOUNS: list[tuple[str, str, str, Agreement]] = [
    ("I", "me", "나", "I"),
    ("you", "you", "너", "many"),
    ("he", "him", "그", "one"),
    ("she", "her", "그녀", "one"),
    ("we", "us", "우리", "many"),
    ("they", "them", "그들", "many"),
]
_POSSESSIVES = [("my", "내"), ("your", "네"), ("his", "그의"), ("her", "그녀의"), ("our", "우리"), ("their", "그들의")]
_BE_PRESENT = {"I": "am", "one": "is", "many": "are"}
BE = Verb("be", "", Predicate("있", is_verb=False))


@dataclass(frozen=True)
class Phrase:
    """A noun phrase in both languages. The Korean has no particle yet."""

    en: str
    ko: str
    agreement: Agreement = "one"
    counted: bool = False
    noun: Noun | None = None

    def topic(self) -> str:
        """Return the Korean with the particle that it takes at the head of a sentence."""
        # 'Three students ...' introduces a new person, which takes the subject particle, not the topic one.
        return ko.subject(self.ko) if self.counted else ko.topic(self.ko)


@dataclass(frozen=True)
class Mood:
    """Tense, negation and question, on which both sides of a sentence agree."""

    tense: Tense
    negative: bool = False
    question: bool = False

    def finish(self, predicate: Predicate) -> str:
        """Return the Korean end of the sentence, without its mark."""
        return predicate.finish(self.tense, self.negative, self.question)


def join(*words: str) -> str:
    """Return the words that are not empty, separated by spaces."""
    return " ".join(word for word in words if word)


def sentence(english: str, korean: str, question: bool) -> Pair:
    """Return both sides with their final mark, and the English with a capital letter."""
    mark = "?" if question else "."
    return english[0].upper() + english[1:] + mark, korean + mark


def inflect(verb: Verb, agreement: Agreement, tense: Tense) -> str:
    """Return the past or present form of an English verb."""
    if tense == "past":
        return verb.past
    return verb.third if agreement == "one" else verb.en


def english_clause(subject: str, agreement: Agreement, verb: Verb, rest: str, mood: Mood, adverb: str = "") -> str:
    """Return the English clause without capital letter and mark, with do-support in questions and negation."""
    main = verb.en
    if mood.tense in ("future", "can"):
        auxiliary = "will" if mood.tense == "future" else "can"
    elif verb is BE:
        past = "were" if agreement == "many" else "was"
        auxiliary, main = past if mood.tense == "past" else _BE_PRESENT[agreement], ""
    elif mood.negative or mood.question:
        do = "does" if agreement == "one" else "do"
        auxiliary = "did" if mood.tense == "past" else do
    else:
        return join(subject, adverb, inflect(verb, agreement, mood.tense), rest)
    denial = "not" if mood.negative else ""
    if mood.question:
        return join(auxiliary, subject, denial, main, rest)
    return join(subject, auxiliary, denial, main, rest).replace("can not ", "cannot ")


class Phrases:
    """Random generator of phrases. Every choice comes from one random stream."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def one(self, options: Sequence[T]) -> T:
        return self.rng.choice(options)

    def mood(self, *tenses: Tense, verb: Verb = BE) -> Mood:
        negative, question = self.chance(0.2), self.chance(0.2)
        tense = self.one(tenses)
        if tense == "past" and verb.past == verb.en and not (negative or question):
            tense = "present"  # 'They read a book.' would be two sentences
        return Mood(tense, negative, question)

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

    def noun_phrase(self, noun: Noun, *, definite: bool = True, new: bool = True) -> Phrase:
        """Return `noun` with a determiner. `definite` and `new` define which kinds may precede it (numbers are new)."""
        if new and noun.counter and noun.kind != "kin" and self.chance(0.15):
            return self.counted(noun)
        adjective_en, adjective_ko = self.adjective(noun, 0.25)
        many = bool(noun.plural) and noun.kind != "kin" and self.chance(0.2)
        determiner_en, determiner_ko, suffix = "", "", "들" if many and noun.animate else ""
        body = join(adjective_en, noun.plural if many else noun.en)
        if noun.kind == "kin" or (definite and noun.plural and self.chance(0.25)):
            determiner_en, determiner_ko = self.possessive()
        elif definite and noun.plural and self.chance(0.15):
            near = self.chance(0.5)
            determiner_en = ("these" if near else "those") if many else ("this" if near else "that")
            determiner_ko, suffix = "이" if near else "저", "들" if many else ""
        elif definite and (not new or self.chance(0.5)):
            determiner_en = "the"
        elif noun.plural and not many:
            body = article(body)
        agreement: Agreement = "many" if many else "one"
        return Phrase(
            join(determiner_en, body), join(determiner_ko, adjective_ko, noun.ko) + suffix, agreement, noun=noun
        )

    def counted(self, noun: Noun) -> Phrase:
        """Return a phrase such as 'three big books' -> 큰 책 세 권."""
        adjective_en, adjective_ko = self.adjective(noun, 0.2)
        number_en, number_ko = self.one(lx.NUMBERS)
        korean = join(adjective_ko, noun.ko, number_ko, noun.counter)
        return Phrase(join(number_en, adjective_en, noun.plural), korean, "many", counted=True, noun=noun)

    def someone(self, *, pronoun: float = 0.3) -> Phrase:
        """Return a person as a subject: pronoun, name, relative or any other noun, sometimes with a relative clause."""
        draw = self.rng.random()
        if draw < pronoun:
            english, _, korean, agreement = self.one(PRONOUNS)
            return Phrase(english, korean, agreement)
        if draw < pronoun + 0.2:
            return Phrase(*self.one(lx.NAMES))
        if draw < pronoun + 0.3:
            return self.noun_phrase(self.one(lx.NOUNS["kin"]))
        if draw < pronoun + 0.5:
            return self.subject_relative()
        noun = self.one(lx.PEOPLE)
        return self.counted(noun) if self.chance(0.15) else self.noun_phrase(noun, new=False)

    def subject_relative(self) -> Phrase:
        """Return a phrase such as 'the man who reads a book' -> 책을 읽는 남자."""
        noun, many = self.one(lx.PEOPLE), self.chance(0.25)
        verb = self.one(lx.TRANSITIVE)
        item = self.noun_phrase(self.one(verb.objects))
        tense: Tense = "past" if verb.flag != "!" and verb.past != verb.en and self.chance(0.4) else "present"
        agreement: Agreement = "many" if many else "one"
        form = verb.ko.past_adnominal if tense == "past" else verb.ko.adnominal
        english = join("the", noun.plural if many else noun.en, "who", inflect(verb, agreement, tense), item.en)
        korean = join(ko.objective(item.ko), form, noun.ko + ("들" if many else ""))
        return Phrase(english, korean, agreement, noun=noun)

    def object_relative(self, noun: Noun, main: Verb) -> Phrase | None:
        """Return a phrase such as 'the book that Mina reads' -> 미나가 읽는 책, or None.

        None means that no verb except `main` takes `noun`, or that `noun` is a person.
        """
        verbs = [verb for verb in lx.TRANSITIVE if noun in verb.objects and verb is not main]
        if not verbs or noun in lx.PEOPLE:
            return None
        verb, actor = self.one(verbs), self.plain_actor()
        tense: Tense = "past" if verb.flag != "!" and verb.past != verb.en and self.chance(0.4) else "present"
        form = verb.ko.past_adnominal if tense == "past" else verb.ko.adnominal
        english = join("the", noun.en, "that", actor.en, inflect(verb, actor.agreement, tense))
        return Phrase(english, join(ko.subject(actor.ko), form, noun.ko), noun=noun)

    def plain_actor(self) -> Phrase:
        """Return a short subject for a relative clause: a pronoun, a name or 'the' person."""
        draw = self.rng.random()
        if draw < 0.35:
            english, _, korean, agreement = self.one(PRONOUNS)
            return Phrase(english, korean, agreement)
        if draw < 0.65:
            return Phrase(*self.one(lx.NAMES))
        noun = self.one(lx.PEOPLE)
        return Phrase(f"the {noun.en}", noun.ko, noun=noun)

    def object_of(self, verb: Verb, subject: Phrase, *, simple: bool = False) -> Phrase:
        """Return an object that `verb` takes. `simple` excludes relative clauses."""
        noun = self.one(verb.objects)
        if noun in lx.PEOPLE and self.chance(0.4):
            named = not any(subject.en == english for english, _ in lx.NAMES)
            if subject.noun and self.chance(0.6):
                _, english, korean, _ = self.one(PRONOUNS)
                return Phrase(english, korean)
            if named:
                return Phrase(*self.one(lx.NAMES))
        if not simple and self.chance(0.15):
            return self.object_relative(noun, verb) or self.noun_phrase(noun)
        return self.noun_phrase(noun)

    def time(self, tense: Tense, probability: float) -> tuple[str, str]:
        return self.one(lx.TIMES[tense]) if self.chance(probability) else ("", "")

    def place(self, *, going: Verb | None = None) -> tuple[str, str]:
        """Return a phrase such as 'in the quiet park' -> 조용한 공원에서.

        As the goal of `going`, the phrase is 'to the park' -> 공원에 or 공원으로.
        """
        noun = self.one(lx.NOUNS["place"])
        adjective_en, adjective_ko = self.adjective(noun, 0.15)
        preposition = "to" if going else lx.PREPOSITION[noun.en]
        korean = join(adjective_ko, noun.ko)
        if going and going.ko.stem.startswith("돌아"):
            korean = ko.directional(korean)
        else:
            korean += "에" if going else "에서"
        return join(preposition, "the", adjective_en, noun.en), korean
