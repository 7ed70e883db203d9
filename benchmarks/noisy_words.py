"""Define the vocabularies of the synthetic text: the word of rank n in English, and in German.

The frequent words are real function words. The others are stems with prefixes and suffixes, which look like words of
the language and are not. So there are as many words as in a real vocabulary, and no word list has to be shipped.
"""

import random
from itertools import product

_SHORT = 8

_ENGLISH_FREQUENT = (
    "the of and to in is that for it on with as this are be by not or from at have which you can was has an will "
    "all if their one they but more there been we when who some may would other its also only no about these "
    "than time into any such use after many most new first then could over between your how must where each she "
    "what should out so under very just even because our before them through while does same both made within "
    "without during still every never again against always another however here another few much own since until"
)
_GERMAN_FREQUENT = (
    "die von und zu in ist dass für es auf mit als dieses sind sein durch nicht oder aus bei haben welche Sie können "
    "war hat ein wird alle wenn ihre eins sie aber mehr dort gewesen wir wann wer einige dürfen würde andere sein auch "
    "nur kein über diese als Zeit hinein jede solche verwenden nach viele meiste neu erste dann könnte über zwischen "
    "Ihr wie muss wo jeder sie was sollte heraus so unter sehr gerade sogar weil unser vor ihnen hindurch während tut "
    "gleich beide gemacht innerhalb ohne während noch jeder niemals wieder gegen immer anderer jedoch hier weiterer "
    "wenige viel eigen seit bis"
)
_FRENCH = (
    "le de la et les des est que dans pour une sur avec pas nous vous sont cette aussi mais leur comme plus être fait "
    "elle tout très deux même encore sans après toujours maison jardin fenêtre lumière rivière montagne écrire lire "
    "manger dormir chercher trouver travailler voyage famille enfant heureux petite grande nouvelle quelque chose"
)
_ENGLISH_STEMS = (
    "act form port press struct view set light work play point mark state print move tend rule part claim sign cover "
    "load place time call turn grow build found word book house water stone field land hand head back side way day "
    "fire wood ship road team plan test price trade law king life love thought hope fear need help care change use "
    "break draw drive fall give hold keep know lead learn leave"
)
_GERMAN_STEMS = (
    "arbeit bau bild blick brauch bruch druck fahr fall feld feuer find form frag führ gang geb geh glaub greif halt "
    "hand haus heiß helf herz hör kauf kenn kind klag komm kraft lager land lauf leb lehr leit lern les licht lieb "
    "mach mark mess nehm ordn platz rat raum recht red reich ruf sag satz schau schein schlag schluss schreib schutz "
    "seh setz sicht sorg sprech stadt stell stimm"
)
_ENGLISH_PREFIXES = "re un over out fore mis under pre sub inter counter dis up in off"
_GERMAN_PREFIXES = "ver be ent er zer ab an auf aus ein über unter vor zu mit"
_ENGLISH_SUFFIXES = (
    "s ing ed er ers able ment ness less ful ly y ish ward wise ship hood like ingly ability fulness edly ments"
)
_GERMAN_SUFFIXES = (
    "en ung ungen lich liche lichen keit er ern bar bare barkeit ig ige igen los lose heit schaft te end ende t"
)


def _vocabulary(frequent: str, stems: str, prefixes: str, suffixes: str) -> list[str]:
    before, after = ["", *prefixes.split()], ["", *suffixes.split()]
    rare = [f"{prefix}{stem}{suffix}" for prefix, stem, suffix in product(before, stems.split(), after)]
    random.Random(1).shuffle(rare)
    rare.sort(key=lambda word: len(word) > _SHORT)  # short words are more frequent than long ones
    return frequent.split() + rare


ENGLISH = _vocabulary(_ENGLISH_FREQUENT, _ENGLISH_STEMS, _ENGLISH_PREFIXES, _ENGLISH_SUFFIXES)
GERMAN = _vocabulary(_GERMAN_FREQUENT, _GERMAN_STEMS, _GERMAN_PREFIXES, _GERMAN_SUFFIXES)
# Rank n of one is the translation of rank n of the other, so both end where the shorter one does.
SIZE = min(len(ENGLISH), len(GERMAN))
ENGLISH, GERMAN = ENGLISH[:SIZE], GERMAN[:SIZE]
FRENCH = _FRENCH.split()
