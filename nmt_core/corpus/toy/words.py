"""Define the kinds of words of the toy grammar in both languages, and English inflection."""

from dataclasses import dataclass

from nmt_core.corpus.toy.korean import Predicate


@dataclass(frozen=True)
class Noun:
    """An English noun with its plural ('' for mass nouns) and its Korean counterpart, counter and class."""

    en: str
    plural: str
    ko: str
    counter: str
    kind: str

    @property
    def animate(self) -> bool:
        """True if plurals take 들: people and animals."""
        return self.kind in ("job", "person", "kin", "animal")


@dataclass(frozen=True)
class Verb:
    """An English verb (base and past) with its Korean predicate. Phrasal verbs inflect their first word.

    `objects` are the nouns that it may take. `flag` is '+' for acts that can be placed somewhere, '!' for states of
    mind (no time, place or ability) and '-' for the rest.
    """

    en: str
    past: str
    ko: Predicate
    flag: str = "-"
    objects: tuple[Noun, ...] = ()

    @property
    def third(self) -> str:
        """Third person singular present: reads, goes, waits for."""
        first, space, rest = self.en.partition(" ")
        return {"have": "has"}.get(first, plural_of(first)) + space + rest


@dataclass(frozen=True)
class Adjective:
    """An English adjective and its Korean predicate."""

    en: str
    ko: Predicate


def plural_of(word: str) -> str:
    """Return the regular plural of a noun, which is also the third person singular of a verb."""
    if word.endswith(("s", "x", "ch", "sh")) or word == "go":
        return word + "es"
    return word[:-1] + "ies" if word.endswith("y") and word[-2] not in "aeou" else word + "s"


def past_of(word: str) -> str:
    """Return the regular past of a verb. A phrasal verb inflects its first word."""
    first, space, rest = word.partition(" ")
    if first.endswith("e"):
        first += "d"
    else:
        first = first[:-1] + "ied" if first.endswith("y") and first[-2] not in "aeou" else first + "ed"
    return first + space + rest


def article(phrase: str) -> str:
    """Return `phrase` with 'a' or 'an', chosen by the sound that it begins with."""
    vowel = phrase[0] in "aeiou" and not phrase.startswith(("uni", "use"))
    return ("an " if vowel or phrase.startswith("honest") else "a ") + phrase
