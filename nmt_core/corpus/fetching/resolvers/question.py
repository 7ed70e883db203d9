"""What a resolver is asked."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nmt_core.config import LanguagesConfig


@dataclass(frozen=True)
class Question:
    """A short address, and who is asking."""

    address: str
    languages: LanguagesConfig
    known: tuple[str, ...] = ()
    """Files that it led to before, by the lock file."""
    sha256: str = ""
    """Expected hash of its one file; empty: any."""
    others: tuple[str, ...] = ()
    """All addresses of the recipe: an index that is slow to open is asked for all of its own at once."""
    ask: Callable[[str], tuple[Any, str]] | None = None
    """Fetches a JSON document and the address of its next page; None without a network."""

    @property
    def rest(self) -> str:
        """The address without its scheme."""
        return self.address.partition(":")[2]
