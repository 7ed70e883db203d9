"""Errors that a user can cause. Each message says what is wrong, where, and what to do about it.

The command line prints the message alone and exits with the error's code; any other exception is a fault of this
program and shows its traceback.
"""

import re
from typing import ClassVar

_PASSWORD = re.compile(r"(?<=://)([^/@\s:]*):[^@\s]*@")
_TOKEN = re.compile(r"(?<=://)[^/@\s:?#]+@")
"""In place of a name and a password; a mere name looks the same, and is hidden too."""
_IN_A_QUERY = re.compile(
    r"([?&][\w.-]*(?:token|signature|secret|password|passwd|credential|key|sig)=)[^&#\s]+", re.IGNORECASE
)


_WITHOUT_A_SCHEME = re.compile(r"(?<![^\s'\"=/:])(?!hf:|models:)([^/@\s:'\"=]+):(?!/)[^@\s'\"]+@")
"""A name and a password of an address that lacks `://`, or has it misspelt. In a sentence it may be an e-mail address
after a colon, so it is hidden in errors alone. After `hf:` and `models:` an @ stands before a revision or an alias."""


def without_password(text: str) -> str:
    """A text with *** in place of passwords, tokens and signatures of the addresses in it.

    What a log or a page shows is read by many.
    """
    return _IN_A_QUERY.sub(r"\1***", _PASSWORD.sub(r"\1:***@", _TOKEN.sub("***@", text)))


def _hidden(text: str) -> str:
    return _WITHOUT_A_SCHEME.sub(r"\1:***@", without_password(text))


def words_of(error: BaseException, most: int = 300) -> str:
    """What an error says, in one line of at most so many characters and without passwords; its type, if nothing."""
    return without_password(" ".join(str(error).split()))[:most] or type(error).__name__


class NmtError(Exception):
    """Base of every error that a user can cause and mend.

    Its message goes to terminals, logs, Prefect and MLflow, so no address in it keeps its password.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, *words: object) -> None:
        super().__init__(*(_hidden(word) if isinstance(word, str) else word for word in words))


class ConfigError(NmtError):
    """A recipe, a `--set` value or a setting is wrong. The message holds the dotted path, the value and the remedy."""


class DataError(NmtError):
    """A file is missing, damaged, or does not hold what the recipe says."""


class ArtifactError(NmtError):
    """The artifact store cannot be read or written, or an artifact is not what its manifest says."""


class DamagedError(ArtifactError):
    """A file of an artifact is not what the manifest says, or is missing: the artifact must be made anew."""


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


class FormatError(ModelError):
    """A bundle is of a format that this version does not read."""
