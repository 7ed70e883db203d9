"""Define the input of a resolver."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nmt_core.config import LanguagesConfig


@dataclass(frozen=True)
class Question:
    """A short address with the information that a resolver needs."""

    address: str
    languages: LanguagesConfig
    known: tuple[str, ...] = ()
    """Files that the address led to earlier, from the lock file."""
    sha256: str = ""
    """Expected sha256 of the one file. Empty means any."""
    others: tuple[str, ...] = ()
    """Addresses of the whole recipe, so that a slow index can answer for all of its addresses at once."""
    ask: Callable[[str], tuple[Any, str]] | None = None
    """Function that returns a JSON document and the address of its next page. None without a network."""

    @property
    def rest(self) -> str:
        """Address without its scheme."""
        return self.address.partition(":")[2]
