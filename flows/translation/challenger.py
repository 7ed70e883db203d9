"""Challenger of a translation job: another model that translates a share of its lines beside the champion."""

from collections.abc import Iterator
from contextlib import contextmanager

from flows.registry.models import Model, model_of, pinned
from flows.settings import Settings
from flows.translation.request import TranslationRequest, pair_of
from nmt_core.bundle.folder import precision_for, read_bundle
from nmt_core.errors import ConfigError
from nmt_core.jobs.folder import JobFolder
from nmt_core.jobs.order import Shadow


def require_watching(request: TranslationRequest) -> None:
    """Check the values of the options about the challenger and about review."""
    if not 0 < request.share <= 1:
        raise ConfigError(f"--share {request.share:g}: must be more than 0 and at most 1")
    if request.review < 0:
        raise ConfigError(f"--review {request.review}: must be 0 or more lines")


@contextmanager
def challenger_of(request: TranslationRequest, folder: JobFolder, settings: Settings) -> Iterator[Model | None]:
    """Yield the challenger, or None if there is none.

    An unfinished job keeps the version that it began with, if the same alias was given.
    """
    if not request.shadow:
        yield None
        return
    begun = folder.begun()
    former = begun.order.shadow if begun else None
    address = pinned(request.shadow, former.asked, former.model) if former else request.shadow
    with model_of(address, settings) as model:
        yield model


def shadow_of(request: TranslationRequest, model: Model, other: Model | None) -> Shadow | None:
    """Return the challenger of an order, which searches as it was registered.

    A model for many pairs of languages may challenge a model for one of them, and the other way round.

    Raises:
        ConfigError: it does not translate between the languages of the job.
    """
    if not other:
        return None
    from nmt_core.search.onnx_session import device_for

    bundle, own = read_bundle(other.folder), read_bundle(model.folder).languages
    pair = pair_of(request, model) if own.pairs else own.pair
    known = bundle.languages.known_pairs or (bundle.languages.pair,)
    wanted = [*([pair] if pair else []), *(own.pairs if request.to_column else [])]
    if unknown := [one for one in wanted if one not in known]:
        raise ConfigError(
            f"--shadow {request.shadow}: translates {', '.join(known)}, and the job is {unknown[0]}: name another model"
        )
    search = other.search(request.beam_size, request.long_lines)
    precision = precision_for(search.precision, device_for(search.precision, bundle.precisions), bundle)
    to = pair if bundle.languages.pairs else ""
    search = search.model_copy(update={"precision": precision, "alignments": "none", "n_best": 1})
    return Shadow(asked=request.shadow, model=other.version, search=search, share=request.share, to=to)
