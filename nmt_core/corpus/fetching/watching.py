"""Detect changes of the text at a recipe's addresses without fetching it.

The digest of a web address is its ETag, or else its size and the time of its last change (RFC 9110, section 8.8). The
digest of a file in a store is the same information as the store reports it. The digest of a local file is its sha256.
Digests are only compared for equality.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import httpx

from nmt_core.config import MonolingualCorpus, ParallelCorpus, PipelineConfig
from nmt_core.corpus.fetching.addresses import STORES, WEB, local_path, resolve_alone, resolve_here, scheme_of
from nmt_core.corpus.fetching.fetcher import logins
from nmt_core.corpus.fetching.lockfile import Lockfile
from nmt_core.corpus.fetching.resolvers import object_stores
from nmt_core.corpus.index import short_key
from nmt_core.errors import DataError, words_of
from nmt_core.store.digests import sha256_of

_SECONDS = 30.0
_STORE_KEYS = ("ETag", "etag", "md5Hash", "size", "LastModified", "updated")
"""Keys under which stores report a file's digest, size and time. Each store has some of them."""


@dataclass
class Look:
    """Result of a check of addresses."""

    digests: dict[str, str] = field(default_factory=dict)
    unanswered: dict[str, str] = field(default_factory=dict)
    """Reasons why addresses could not be checked, by address."""


def watched(config: PipelineConfig) -> list[str]:
    """Return the addresses whose text may change: each one, once, that the recipe does not pin by a sha256.

    A short address counts as the files that the lock file lists for it. Before the first download, or without a lock
    file, these are unknown. A pattern in an object store counts as itself.

    Raises:
        DataError: an address is wrong.
    """
    lock = Lockfile(config.corpus.lock)
    addresses: list[str] = []
    parallel = (*config.corpus.train, *config.corpus.dev, *config.corpus.test)
    named: list[ParallelCorpus | MonolingualCorpus] = [*parallel, *config.corpus.monolingual]
    for corpus in named:
        languages = corpus.languages_in(config.languages)
        if isinstance(corpus, MonolingualCorpus):
            resolution = resolve_alone(corpus, corpus.side_in(config.languages))
        else:
            resolution = resolve_here(corpus, languages)
        if resolution:
            addresses += [file.address for file in resolution.files if not file.sha256]
        elif scheme_of(corpus.address) in STORES:
            addresses.append(corpus.address)
        elif not corpus.sha256:
            addresses += lock.files_of(short_key(corpus.address, languages))
    return list(dict.fromkeys(addresses))


def look(addresses: Iterable[str]) -> Look:
    """Check addresses one after the other. An address that does not answer counts as unanswered, not as changed."""
    result = Look()
    with httpx.Client(timeout=_SECONDS, follow_redirects=True, auth=logins()) as client:
        for address in addresses:
            try:
                result.digests[address] = _digest(address, client)
            except (DataError, httpx.HTTPError, OSError) as error:
                result.unanswered[address] = words_of(error)
    return result


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the addresses whose digest has changed. An address without an earlier digest has not changed."""
    return [address for address, digest in now.items() if before.get(address, digest) != digest]


def _digest(address: str, client: httpx.Client) -> str:
    scheme = scheme_of(address)
    if scheme in WEB:
        return _digest_on_the_web(address, client)
    if scheme in STORES:
        return _digest_in_a_store(address)
    return f"sha256:{sha256_of(local_path(address))}"


def _digest_on_the_web(address: str, client: httpx.Client) -> str:
    answer = client.head(address, headers={"Accept-Encoding": "identity"})
    answer.raise_for_status()
    if tag := answer.headers.get("ETag", "").removeprefix("W/"):
        return f"etag:{tag}"
    size, time = answer.headers.get("Content-Length", ""), answer.headers.get("Last-Modified", "")
    if not size and not time:
        raise DataError("the server gives neither an ETag, nor a size, nor a time: pin the text by its sha256")
    return f"size:{size} time:{time}"


def _digest_in_a_store(address: str) -> str:
    """Return the digest of a file, or of all files that match a pattern."""
    infos = object_stores.infos(address)
    return "; ".join(
        f"{name} " + " ".join(f"{key}:{info[key]}" for key in _STORE_KEYS if info.get(key)) for name, info in infos
    )
