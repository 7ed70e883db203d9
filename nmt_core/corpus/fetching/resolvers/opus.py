"""Resolve opus:Corpus/version: a corpus of OPUS in Moses format, as one zip of two text files.

opus:Corpus/version/en-pt_BR names the languages as OPUS does, where it distinguishes regions or scripts.
"""

import re

from nmt_core.config import SIDES
from nmt_core.corpus.fetching.addresses import RequestedFile, Resolution
from nmt_core.corpus.fetching.resolvers.question import Question
from nmt_core.errors import DataError
from nmt_core.formats.languages import same_language

_STORE = "https://object.pouta.csc.fi"
_PAGE = "https://opus.nlpl.eu"
_CITATION = (
    "Jörg Tiedemann. 2012. Parallel Data, Tools and Interfaces in OPUS. In Proceedings of the Eighth International "
    "Conference on Language Resources and Evaluation (LREC'12)."
)


_ADDRESS = re.compile(r"(\w[\w.-]*)/(\w[\w.-]*)(?:/([A-Za-z_]+)-([A-Za-z_]+))?")


def resolve(question: Question) -> Resolution:
    """Return both sides of a corpus, with two candidate addresses.

    OPUS names its files by the languages in alphabetical order, with few exceptions, so the other order comes second.

    Raises:
        DataError: the address is not Corpus/version, or it names other languages than the recipe.
    """
    match = _ADDRESS.fullmatch(question.rest)
    if not match:
        raise DataError(
            f"{question.address}: must read opus:CORPUS/VERSION, as in opus:Tatoeba/v2023-04-12, and may end in the "
            f"languages as OPUS names them, as in /en-pt_BR; {_PAGE} lists both"
        )
    corpus, version = match[1], match[2]
    languages = _languages(match[3], match[4], question) if match[3] else _of_recipe(question)
    first, second = sorted(languages)
    folder = f"{_STORE}/OPUS-{corpus}/{version}/moses"
    candidates = [f"{folder}/{first}-{second}.txt.zip", f"{folder}/{second}-{first}.txt.zip"]
    candidates.sort(key=lambda address: address not in question.known)
    files = tuple(
        RequestedFile(candidates[0], side, member=f"*.{language}", sha256=question.sha256, otherwise=candidates[1])
        for side, language in zip(SIDES, languages, strict=True)
    )
    url = f"{_PAGE}/{corpus}/corpus/version/{corpus}"
    return Resolution(files, citation=_CITATION, url=url)


def _of_recipe(question: Question) -> tuple[str, str]:
    return question.languages.source, question.languages.target


def _languages(first: str, second: str, question: Question) -> tuple[str, str]:
    """Return the names that OPUS uses for the source and the target language."""
    source, target = question.languages.tag("source"), question.languages.tag("target")
    for own, other in ((first, second), (second, first)):
        if same_language(own, source) and same_language(other, target):
            return own, other
    raise DataError(
        f"{question.address}: is in {first} and {second}, but the recipe is from {source} to {target}: name the "
        "languages of the recipe"
    )
