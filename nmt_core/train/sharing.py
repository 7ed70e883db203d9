"""Whether the processes of a training have the same share of every update."""

from nmt_core.batches.plan import slices_of_an_update
from nmt_core.config import TrainConfig

_NICE_TOKENS = 64  # a size that is a multiple of this suits matrix products


def waiting_for_others(config: TrainConfig, processes: int) -> str:
    """What is lost because an update's slices do not divide by the processes, and what to set; empty if nothing is.

    A process computes whole slices. When some have one more than the others, these wait for them.
    """
    slices = slices_of_an_update(config.max_tokens, config.slice_tokens)
    rounds = -(-slices // processes)
    if rounds * processes == slices:
        return ""
    share = 1 - slices / (rounds * processes)
    return (  # no SQL, though it says "update" and "set"
        f"{slices} slices of an update on {processes} processes: {share:.0%} of their time is waiting; for the next "  # noqa: S608
        f"training set {_remedy(config, rounds * processes)}"
    )


def _remedy(config: TrainConfig, slices: int) -> str:
    """What makes so many slices."""
    most = config.max_tokens // slices
    nice = most // _NICE_TOKENS * _NICE_TOKENS
    if not nice:
        return f"train.max_tokens={slices * config.slice_tokens} ({slices} slices), or NMT_PROCESSES to fewer"
    size = nice if slices_of_an_update(config.max_tokens, nice) == slices else most
    return f"train.slice_tokens={size} ({slices} slices)"
