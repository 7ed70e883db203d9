"""Generate sentences of the toy grammar: nine kinds, each drawn together with its translation.

The Korean is a function of the English sentence in one register (plain 해라체, questions in -는가), so a small
Transformer can learn it almost perfectly.
"""

import random
from collections.abc import Callable
from dataclasses import replace

from nmt_core.corpus.toy import korean as ko
from nmt_core.corpus.toy import lexicon as lx
from nmt_core.corpus.toy.korean import Predicate, Tense
from nmt_core.corpus.toy.phrases import BE, PRONOUNS, Mood, Pair, Phrase, Phrases, english_clause, join, sentence
from nmt_core.corpus.toy.words import Verb, article

_MAX_DRAWS = 20_000
_POINTERS: list[tuple[str, str, bool]] = [
    ("this", "이것", False),
    ("that", "저것", False),
    ("it", "그것", False),
    ("these", "이것들", True),
    ("those", "저것들", True),
]
_SURFACE_SPOTS = [("on", "위에"), ("under", "아래에"), ("behind", "뒤에"), ("in front of", "앞에"), ("next to", "옆에")]


class Grammar(Phrases):
    """Random generator of sentences."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
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
        """Return one sentence with its translation."""
        makers, weights = zip(*self.kinds, strict=True)
        maker: Callable[[], Pair] = self.rng.choices(makers, weights)[0]
        return maker()

    def clause(self, subject: Phrase, verb: Verb, rest: Pair, mood: Mood, when: Pair = ("", "")) -> Pair:
        """Combine subject, verb, the rest of both sides and a time, which may come first in a statement."""
        adverb_en, adverb_ko = "", ""
        plain = mood.tense == "present" and not (mood.negative or mood.question)
        if plain and not when[0] and verb.flag != "!" and self.chance(0.3):
            adverb_en, adverb_ko = self.one(lx.FREQUENCY)
        english_rest, korean_rest = rest
        ending = mood.finish(verb.ko)
        if when[0] and not mood.question and self.chance(0.25):
            english = english_clause(subject.en, subject.agreement, verb, english_rest, mood)
            korean = join(when[1], subject.topic(), korean_rest, ending)
            first = f"{when[0][0].upper()}{when[0][1:]}, "
            return sentence(first + english, korean, mood.question)
        english = english_clause(subject.en, subject.agreement, verb, join(english_rest, when[0]), mood, adverb_en)
        return sentence(english, join(subject.topic(), when[1], adverb_ko, korean_rest, ending), mood.question)

    def identity(self) -> Pair:
        """Return a pair such as 'Mina is a doctor.' -> 미나는 의사다."""
        mood = self.mood("present", "present", "past", "future")
        subject = self.someone(pronoun=0.4)
        job = self.one(lx.NOUNS["job"])
        many = subject.agreement == "many" and subject.en != "you"
        adjective_en, adjective_ko = self.adjective(job, 0.4)
        body = join(adjective_en, job.plural if many else job.en)
        english = english_clause(subject.en, subject.agreement, BE, body if many else article(body), mood)
        ending = ko.copula(join(adjective_ko, job.ko), mood.tense, mood.negative, mood.question)
        return sentence(english, join(subject.topic(), ending), mood.question)

    def description(self) -> Pair:
        """Return a pair such as 'The book is interesting.' -> 책은 재미있다."""
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
            relative = self.object_relative(noun, BE) if verbs and self.chance(0.3) else None
            subject = relative or self.noun_phrase(noun, new=False)
        words = subject.en.split()
        adjective = self.one([adjective for adjective in lx.ADJECTIVES[kind] if adjective.en not in words])
        english = english_clause(subject.en, subject.agreement, BE, join(adjective.en, when[0]), mood)
        return sentence(english, join(subject.topic(), when[1], mood.finish(adjective.ko)), mood.question)

    def action(self) -> Pair:
        """Return a pair such as 'Mina reads a book in the park.' -> 미나는 공원에서 책을 읽는다."""
        verb, subject = self.one(lx.TRANSITIVE), self.someone()
        if verb.flag == "!":
            mood = self.mood("present", "present", "past", verb=verb)
            item = self.object_of(verb, subject)
            return self.clause(subject, verb, (item.en, ko.objective(item.ko)), mood)
        mood = self.mood("present", "past", "future", "can", verb=verb)
        placed, when = verb.flag == "+" and self.chance(0.35), self.time(mood.tense, 0.35)
        item = self.object_of(verb, subject, simple=placed or bool(when[0]))
        place_en, place_ko = self.place() if placed else ("", "")
        return self.clause(subject, verb, (join(item.en, place_en), join(place_ko, ko.objective(item.ko))), mood, when)

    def movement(self) -> Pair:
        """Return a pair such as 'The boy goes to the school with Tom.' -> 소년은 톰과 함께 학교에 간다."""
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
            company = f"with {english}", f"{ko.conjunctive(korean)} 함께"
        elif self.chance(0.2):
            manner = self.one([row for row in lx.MANNER if not (going and row[0] in ("well", "carefully"))])
        when = self.time(mood.tense, 0.4)
        rest_en = join(place[0], manner[0], company[0]) if going else join(manner[0], place[0], company[0])
        return self.clause(subject, verb, (rest_en, join(company[1], place[1], manner[1])), mood, when)

    def gift(self) -> Pair:
        """Return a pair such as 'Mina gives a book to the boy.' -> 미나는 소년에게 책을 준다."""
        verb, subject = self.one(lx.GIVING), self.someone()
        mood = self.mood("present", "past", "future", "can", verb=verb)
        item = self.noun_phrase(self.one(lx.NOUNS["thing"] + lx.NOUNS["reading"] + lx.NOUNS["fruit"]))
        if subject.noun and self.chance(0.3):
            _, english, korean, _ = self.one(PRONOUNS)
            receiver = Phrase(english, korean)
        else:
            receiver = self.noun_phrase(self.one(lx.PEOPLE), new=False)
        rest = join(item.en, "to", receiver.en), join(f"{receiver.ko}에게", ko.objective(item.ko))
        return self.clause(subject, verb, rest, mood, self.time(mood.tense, 0.3))

    def location(self) -> Pair:
        """Return a pair such as 'There is a cup on the desk.' -> 책상 위에 컵이 있다.

        The other form is 'The cup is ...' -> 컵은 책상 위에 있다.
        """
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
            english = english_clause("there", item.agreement, BE, join(item.en, spot_en), mood)
            return sentence(english, join(spot_ko, ko.subject(item.ko), ending), mood.question)
        item = self.noun_phrase(noun, new=False)
        english = english_clause(item.en, item.agreement, BE, spot_en, mood)
        return sentence(english, join(item.topic(), spot_ko, ending), mood.question)

    def possession(self) -> Pair:
        """Return a pair such as 'Tom has three dogs.' -> 톰은 개 세 마리가 있다."""
        mood = self.mood("present", "present", "past", verb=lx.HAVE)
        subject = self.someone()
        kinds = ("thing", "animal", "clothes")
        item = self.noun_phrase(self.one(lx.NOUNS[self.one(kinds)]), definite=False)
        predicate = Predicate("없" if mood.negative else "있", is_verb=False)
        ending = predicate.finish(mood.tense, question=mood.question)
        english = english_clause(subject.en, subject.agreement, lx.HAVE, item.en, mood)
        return sentence(english, join(subject.topic(), ko.subject(item.ko), ending), mood.question)

    def pointing(self) -> Pair:
        """Return a pair such as 'This is my book.' -> 이것은 내 책이다."""
        english, korean, many = self.one(_POINTERS)
        mood = self.mood("present", "present", "past")
        noun = self.one(lx.NOUNS[self.one(("thing", "reading", "animal", "clothes", "vehicle"))])
        adjective_en, adjective_ko = self.adjective(noun, 0.3)
        body = join(adjective_en, noun.plural if many else noun.en)
        owner_en, owner_ko = self.possessive() if self.chance(0.5) else ("", "")
        thing = join(owner_en, body) if owner_en or many else article(body)
        clause = english_clause(english, "many" if many else "one", BE, thing, mood)
        ending = ko.copula(join(owner_ko, adjective_ko, noun.ko), mood.tense, mood.negative, mood.question)
        return sentence(clause, join(ko.topic(korean), ending), mood.question)

    def wh_question(self) -> Pair:
        """Return a pair such as 'Who reads the book?' -> 누가 책을 읽는가?, or a question with what, where or when."""
        word = self.one(("who", "what", "where", "when"))
        acts = [verb for verb in lx.TRANSITIVE if verb.flag == "+"]
        verb = self.one([verb for verb in acts if word != "what" or lx.PEOPLE[0] not in verb.objects])
        tense: Tense = self.one(("past", "future") if word == "when" else ("present", "past", "future"))
        mood = Mood(tense, question=True)
        ending, subject = mood.finish(verb.ko), self.someone()
        if word == "who":
            if verb.past == verb.en and tense == "past":
                mood, ending = Mood("present", question=True), verb.ko.finish("present", question=True)
            item = self.noun_phrase(self.one(verb.objects))
            english = english_clause("who", "one", verb, item.en, replace(mood, question=False))
            return sentence(english, join("누가", ko.objective(item.ko), ending), question=True)
        if word == "what":
            when = self.time(tense, 0.5)
            english = english_clause(subject.en, subject.agreement, verb, when[0], mood)
            korean = join(subject.topic(), when[1], "무엇을", ending)
            return sentence(f"what {english}", korean, question=True)
        item = self.object_of(verb, subject, simple=True)
        english = english_clause(subject.en, subject.agreement, verb, item.en, mood)
        question_word = "어디에서" if word == "where" else "언제"
        return sentence(f"{word} {english}", join(subject.topic(), question_word, ko.objective(item.ko), ending), True)


class Source:
    """Generator of sentence pairs that never repeats a pair and never returns `given`."""

    def __init__(self, grammar: Grammar, given: Pair) -> None:
        self.grammar = grammar
        self.seen: set[str] = set(given)

    def fresh(self, accept: Callable[[Pair], bool] = lambda pair: True, *, new_korean: bool = True) -> Pair:
        """Return a pair that `accept` takes and whose English, and with `new_korean` also the Korean, is new.

        Raises:
            ValueError: the grammar seems to have no such pair left.
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
