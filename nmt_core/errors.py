"""Errors that a user can cause. Each message names the place, the problem and the remedy.

The command line prints only the message and exits with the error's code. Any other exception is a bug in this program
and shows its traceback.
"""

import re
from typing import ClassVar

_PASSWORD = re.compile(r"(?<=://)([^/@\s:]*):[^@\s]*@")
_TOKEN = re.compile(r"(?<=://)[^/@\s:?#]+@")
"""User part of an address without a password. It may be a token, which looks like a plain user name, so it is hidden
too."""
_IN_A_QUERY = re.compile(
    r"([?&][\w.-]*(?:token|signature|secret|password|passwd|credential|key|sig)=)[^&#\s]+", re.IGNORECASE
)


_WITHOUT_A_SCHEME = re.compile(r"(?<![^\s'\"=/:])(?!hf:|models:)([^/@\s:'\"=]+):(?!/)[^@\s'\"]+@")
"""User name and password of an address without `://`, or with a misspelt one.

In a sentence, the same characters may be an e-mail address after a colon, so this is hidden in errors only. After `hf:`
and `models:`, the part after @ is a revision or an alias.
"""


def without_password(text: str) -> str:
    """Return a text with *** in place of the passwords, tokens and signatures of its addresses.

    Many people can read logs and pages.
    """
    return _IN_A_QUERY.sub(r"\1***", _PASSWORD.sub(r"\1:***@", _TOKEN.sub("***@", text)))


def _hidden(text: str) -> str:
    return _WITHOUT_A_SCHEME.sub(r"\1:***@", without_password(text))


def words_of(error: BaseException, most: int = 300) -> str:
    """Return the message of an error in one line of at most `most` characters, without passwords.

    An error without a message gives the name of its type.
    """
    return without_password(" ".join(str(error).split()))[:most] or type(error).__name__


TRANSIENT_HTTP_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Status codes after which the same HTTP request may succeed a little later."""


def shown(value: object, most: int = 60) -> str:
    """Return a value as a message shows it, with at most `most` characters of it."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}..."


def counted(count: int, one: str, many: str = "") -> str:
    """Return a number with its noun, such as "1 line" or "1,204 lines".

    Args:
        count: the number.
        one: the noun in the singular, with the words that belong to it.
        many: its plural. By default the singular with an s.
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


class NmtError(Exception):
    """Base class of all errors that a user can cause and fix.

    Messages go to terminals, logs, Prefect and MLflow, so passwords in addresses are hidden.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, *words: object) -> None:
        super().__init__(*(_hidden(word) if isinstance(word, str) else word for word in words))


class ConfigError(NmtError):
    """Wrong recipe, `--set` value or setting. The message holds the dotted path, the value and the remedy."""


class DataError(NmtError):
    """Missing or damaged file, or a file that does not contain what the recipe expects."""


class ArtifactError(NmtError):
    """Artifact store that cannot be read or written, or an artifact that does not match its manifest."""


class DamagedError(ArtifactError):
    """File of an artifact that is missing or does not match the manifest. The artifact must be made again."""


class StageError(NmtError):
    """Stage that could not produce its result: diverged training, failed parity, no rows left."""


class PreemptedError(StageError):
    """Job that was asked to stop by the owner of its machines, and has saved what it needs to resume."""

    exit_code = 75  # EX_TEMPFAIL of sysexits.h: nothing is wrong, try again


class BudgetError(PreemptedError):
    """Job that has used up its budget, and has saved what it needs to resume with a larger one."""

    exit_code = 1  # the same command would stop again immediately


class ModelError(NmtError):
    """Bundle or registered model that is missing, damaged, or does not fit its tokenizer."""


class FormatError(ModelError):
    """Bundle whose format this version cannot read."""
