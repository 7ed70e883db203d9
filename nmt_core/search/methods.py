"""Select the search method of a configuration."""

from collections.abc import Sequence

from nmt_core.config import SearchConfig
from nmt_core.search.beam import n_best
from nmt_core.search.greedy import greedy_search
from nmt_core.search.hypothesis import Hypothesis
from nmt_core.search.sampling import sample
from nmt_core.search.step import Stepper


def search_batch(
    stepper: Stepper, source_ids: Sequence[Sequence[int]], config: SearchConfig, prefixes: Sequence[Sequence[int]] = ()
) -> list[list[Hypothesis]]:
    """Return one to `config.n_best` hypotheses for each source, in order (see `beam.n_best` for the arguments)."""
    if config.method == "sample":
        return sample(stepper, source_ids, config, prefixes)
    if config.beam_size == 1:
        return [[hypothesis] for hypothesis in greedy_search(stepper, source_ids, config, prefixes)]
    return n_best(stepper, source_ids, config, prefixes)
