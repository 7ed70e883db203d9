"""Errors that a user can cause. Each message says what is wrong, where, and what to do about it.

The command line prints the message alone and exits with the error's code; any other exception is a fault of this
program and shows its traceback.
"""

from typing import ClassVar


class NmtError(Exception):
    """Base of every error that a user can cause and mend."""

    exit_code: ClassVar[int] = 1


class ConfigError(NmtError):
    """A recipe, a `--set` value or a setting is wrong. The message holds the dotted path, the value and the remedy."""


class DataError(NmtError):
    """A file is missing, damaged, or does not hold what the recipe says."""


class ArtifactError(NmtError):
    """The artifact store cannot be read or written, or an artifact is not what its manifest says."""


class StageError(NmtError):
    """A stage could not reach its result: diverged training, failed parity, no rows left."""


class PreemptedError(StageError):
    """A job was asked to stop, by whoever the machines belong to, and has saved all it needs to go on."""

    exit_code = 75  # EX_TEMPFAIL of sysexits.h: nothing is wrong, try again


class BudgetError(PreemptedError):
    """A job has taken all that its budget allows, and has saved all it needs to go on with a larger one."""

    exit_code = 1  # the same command would stop again at once


class ModelError(NmtError):
    """A bundle or registered model cannot be found, is damaged, or does not fit its tokenizer."""
