"""List the corpora of OPUS in a pair of languages, and choose among them by size and kind. No text is fetched."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from nmt_core.advice.corpora import Pair, corpus_name
from nmt_core.advice.findings import LEAST_PAIRS, Corpus, Findings, Wishes
from nmt_core.config.language_codes import canonical, is_code
from nmt_core.errors import ConfigError, DataError

API = "https://opus.nlpl.eu/opusapi/"
SCHEME = "opus:"

Ask = Callable[[str], tuple[Any, str]]
"""Function that returns the JSON document at an address, and the address of its next page."""

# Pairs that a program found on web pages. The others were translated as such, or aligned by documents.
_CRAWLED = ("ccmatrix", "ccaligned", "paracrawl", "nllb", "hplt", "wikimatrix", "xlent", "linguatools", "wikititles")
_CRAWLED_TOO = ("elrc-", "giga", "macocu", "tilde")
_LEAST_OF_A_CORPUS = 500
_SHOWN = 12


class Listed(NamedTuple):
    """A corpus that OPUS lists."""

    name: str
    version: str
    pairs: int
    kilobytes: int

    @property
    def address(self) -> str:
        """Address as a recipe has it."""
        return f"{SCHEME}{self.name}/{self.version}"

    @property
    def is_crawled(self) -> bool:
        """True for text that was found on web pages by a program."""
        name = self.name.casefold()
        return any(part in name for part in _CRAWLED) or name.startswith(_CRAWLED_TOO)


def is_opus(place: str) -> bool:
    """Return True for an address of OPUS."""
    return place.lower().startswith(SCHEME)


def look(places: Sequence[str], wishes: Wishes, ask: Ask, most_pairs: int, api: str = API) -> Findings:
    """Choose corpora of OPUS: of a pair of languages (`opus:en-ko`), or the named ones (`opus:Tatoeba/v2023-04-12`).

    Args:
        places: addresses.
        wishes: languages, which named corpora need.
        ask: function that fetches the list.
        most_pairs: number of pairs that this machine can train on. Larger corpora are left out, unless they are named.
        api: address of the list.

    Raises:
        NmtError: an address is wrong, there is no network, or OPUS has no text in these languages.
    """
    began = time.monotonic()
    rests = [place[len(SCHEME) :].strip("/") for place in places]
    languages = _pair_of(rests, wishes)
    listed = _listed(languages, ask, api)
    if "/" in rests[0]:
        chosen, left = _named(rests, listed, languages), list[Listed]()
    else:
        chosen, left = _chosen(listed, most_pairs)
    pairs = sum(one.pairs for one in chosen)
    if pairs < LEAST_PAIRS:
        raise DataError(
            f"{places[0]}: OPUS lists {pairs:,} pairs in {languages[0]} and {languages[1]}, too few to train a model: "
            f"{LEAST_PAIRS:,} are the least: add text of your own, or choose a related language"
        )
    size = sum(one.kilobytes for one in chosen) / 1e3
    notes = [f"the list of OPUS was read, and no text was fetched; these corpora are about {size:,.0f} MB to fetch"]
    if left:
        more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
        shown = ", ".join(f"{one.address} ({one.pairs:,} pairs)" for one in left[:_SHOWN])
        notes.append(f"OPUS has more, which is crawled, tiny, or more than this machine can train on: {shown}{more}")
    return Findings(
        name=corpus_name("opus-" + "-".join(languages)),
        languages=languages,
        corpora=tuple(_corpus(one) for one in chosen),
        sample=None,
        seconds=time.monotonic() - began,
        notes=tuple(notes),
    )


def _pair_of(rests: Sequence[str], wishes: Wishes) -> Pair:
    parts = rests[0].split("-")
    is_pair = len(parts) == 2 and all(map(is_code, parts))
    if is_pair and len(rests) == 1:
        pair = (canonical(parts[0]), canonical(parts[1]))
        if pair[0] == pair[1]:
            raise ConfigError(f"{SCHEME}{rests[0]}: names one language twice: name two, as in opus:en-ko")
        return pair
    if any(rest.count("/") not in (1, 2) for rest in rests):
        raise ConfigError(
            f"{SCHEME}{rests[0]}: must be a pair of languages, as in opus:en-ko, or corpora with their versions, as in "
            "opus:Tatoeba/v2023-04-12; https://opus.nlpl.eu lists both"
        )
    if not wishes.languages:
        raise ConfigError(
            f"{SCHEME}{rests[0]}: names no languages: add them, the source first, as in --languages en-ko"
        )
    return wishes.languages


def _listed(languages: Pair, ask: Ask, api: str) -> list[Listed]:
    """Return what OPUS lists, the largest corpora first."""
    source, target = sorted(languages)
    query = urlencode({"source": source, "target": target, "preprocessing": "moses", "version": "latest"})
    address = f"{api}?{query}"
    try:
        document, _ = ask(address)
    except DataError as error:
        reason = str(error).partition(": check the address")[0]
        raise DataError(
            f"{reason}: the list of OPUS needs the network: connect, or name text of this machine, as in `nmt init "
            "text.en text.de`"
        ) from None
    corpora = document.get("corpora") if isinstance(document, dict) else None
    if not isinstance(corpora, list):
        raise DataError(f"{address}: answered with something other than a list of corpora: try again later")
    found = [one for entry in corpora if isinstance(entry, dict) and (one := _entry(entry))]
    if not found:
        raise DataError(
            f"{SCHEME}{languages[0]}-{languages[1]}: OPUS lists no corpus in these languages: correct the codes, or "
            "look at https://opus.nlpl.eu"
        )
    return sorted(found, key=lambda one: (-one.pairs, one.name))


def _entry(entry: dict[str, Any]) -> Listed | None:
    """Return a corpus of the list, or None for an entry that is not a corpus of aligned text."""
    try:
        name, version = str(entry["corpus"]), str(entry["version"])
        return Listed(name, version, int(entry["alignment_pairs"] or 0), int(entry.get("size") or 0))
    except (KeyError, TypeError, ValueError):
        return None


def _named(rests: Sequence[str], listed: Sequence[Listed], languages: Pair) -> list[Listed]:
    known = {f"{one.name}/{one.version}": one for one in listed}
    chosen = []
    for rest in rests:
        key = "/".join(rest.split("/")[:2])
        if key not in known:
            name = key.partition("/")[0]
            close = [one.address for one in listed if one.name.casefold() == name.casefold()]
            hint = f"the newest is {close[0]}" if close else "`nmt init " + f"{SCHEME}{'-'.join(languages)}` lists all"
            raise DataError(f"{SCHEME}{rest}: OPUS does not list it in {' and '.join(languages)}: {hint}")
        chosen.append(known[key])
    return chosen


def _chosen(listed: Sequence[Listed], most_pairs: int) -> tuple[list[Listed], list[Listed]]:
    """Return the corpora to train on, and the others: translated text first, crawled text as long as there is room."""
    chosen: list[Listed] = []
    for one in sorted(listed, key=lambda one: (one.is_crawled, -one.pairs)):
        room = most_pairs - sum(other.pairs for other in chosen)
        if one.pairs >= _LEAST_OF_A_CORPUS and one.pairs <= room:
            chosen.append(one)
    if not chosen:  # all are too large, or too small: the one that comes nearest
        chosen = [min(listed, key=lambda one: abs(one.pairs - most_pairs))]
    return chosen, [one for one in listed if one not in chosen]


def _corpus(one: Listed) -> Corpus:
    about = f"{one.pairs:,} pairs as OPUS lists them, {'crawled' if one.is_crawled else 'not crawled'}"
    return Corpus("train", {"name": corpus_name(one.name), "address": one.address}, one.pairs, about)
