"""Resolve short addresses to files, licences and citations.

A resolver takes a `Question` and returns a `Resolution`. Only resolvers that need the network use it. Their answers are
recorded in the lock file, so that they are looked up once.
"""

from collections.abc import Callable

from nmt_core.corpus.fetching.addresses import Resolution
from nmt_core.corpus.fetching.resolvers import hugging_face, mtdata_index, object_stores, opus, sacrebleu_sets
from nmt_core.corpus.fetching.resolvers.question import Question

RESOLVERS: dict[str, Callable[[Question], Resolution]] = {
    "opus": opus.resolve,
    "mtdata": mtdata_index.resolve,
    "sacrebleu": sacrebleu_sets.resolve,
    "hf": hugging_face.resolve,
    "s3": object_stores.resolve,
    "gs": object_stores.resolve,
    "gcs": object_stores.resolve,
    "memory": object_stores.resolve,
}

__all__ = ["RESOLVERS", "Question"]
