"""opus:Corpus/version - a corpus of OPUS in Moses format, as one zip of two text files."""

import re

from nmt_core.corpus.fetching.addresses import SIDES, Resolution, WantedFile
from nmt_core.corpus.fetching.resolvers.question import Question
from nmt_core.errors import DataError

_STORE = "https://object.pouta.csc.fi"
_PAGE = "https://opus.nlpl.eu"
_CITATION = (
    "Jörg Tiedemann. 2012. Parallel Data, Tools and Interfaces in OPUS. In Proceedings of the Eighth International "
    "Conference on Language Resources and Evaluation (LREC'12)."
)


def resolve(question: Question) -> Resolution:
    """Languages are in alphabetical order in the names of OPUS, with few exceptions; so the other order comes second.

    Raises:
        DataError: the address is not Corpus/version.
    """
    if not re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", question.rest):
        raise DataError(
            f"{question.address}: must read opus:CORPUS/VERSION, as in opus:Tatoeba/v2023-04-12; {_PAGE} lists both"
        )
    corpus, version = question.rest.split("/")
    languages = question.languages.source, question.languages.target
    first, second = sorted(languages)
    folder = f"{_STORE}/OPUS-{corpus}/{version}/moses"
    candidates = [f"{folder}/{first}-{second}.txt.zip", f"{folder}/{second}-{first}.txt.zip"]
    candidates.sort(key=lambda address: address not in question.known)
    files = tuple(
        WantedFile(candidates[0], side, member=f"*.{language}", sha256=question.sha256, otherwise=candidates[1])
        for side, language in zip(SIDES, languages, strict=True)
    )
    url = f"{_PAGE}/{corpus}/corpus/version/{corpus}"
    return Resolution(files, citation=_CITATION, url=url)
