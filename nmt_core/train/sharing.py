"""Check that all processes of a training have the same share of every update."""

from nmt_core.batches.plan import micro_batches_of_an_update
from nmt_core.config import TrainConfig

_NICE_TOKENS = 64  # a size that is a multiple of this suits matrix products


def imbalance_warning(config: TrainConfig, processes: int) -> str | None:
    """Return a warning if the number of processes does not divide the number of micro-batches in an update.

    A process computes whole micro-batches. If some processes have one more than the others, the others wait.

    Args:
        config: options of the training.
        processes: number of its processes.

    Returns:
        The share of time that is lost and the remedy, or None if no time is lost.
    """
    count = micro_batches_of_an_update(config.max_tokens, config.micro_batch_tokens)
    rounds = -(-count // processes)
    if rounds * processes == count:
        return None
    share = 1 - count / (rounds * processes)
    return (  # the words "update" and "set" do not make this SQL
        f"{count} micro-batches per update on {processes} processes: they wait {share:.0%} of the time: "  # noqa: S608
        f"for the next training set {_remedy(config, rounds * processes, processes)}"
    )


def _remedy(config: TrainConfig, count: int, processes: int) -> str:
    """Return the setting that gives this many micro-batches per update, or the next multiple of the processes.

    Not every number of micro-batches has a size: 65,142 tokens are 517 micro-batches of 126, and 512 of 127.
    """
    for possible in range(count, config.max_tokens // _NICE_TOKENS + 1, processes):
        most = config.max_tokens // possible
        for size in (most // _NICE_TOKENS * _NICE_TOKENS, most):
            if micro_batches_of_an_update(config.max_tokens, size) == possible:
                return f"train.micro_batch_tokens={size} ({possible} micro-batches)"
    tokens = count * config.micro_batch_tokens
    return f"train.max_tokens={tokens} ({count} micro-batches), or NMT_PROCESSES to fewer"
