"""How fast one bundle translates beside another, on this machine and on the same lines."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from nmt_core.config import SearchConfig
from nmt_core.translator import Translator

_ROUNDS = 3


@dataclass(frozen=True)
class SpeedTest:
    """What to compare on."""

    lines: Sequence[str]
    """Source text, some hundred lines."""
    search: SearchConfig
    threads: int = 1
    """CPU threads to use."""

    def ratio(self, one: Path, other: Path) -> float:
        """Target tokens per second of one bundle over those of another: the median of rounds in which they take turns.

        Each is loaded as whoever pulls it would: in the fastest precision that it has for this machine.

        Raises:
            ModelError: a bundle is damaged, or of another format.
        """
        both = [Translator.load(folder, self.search, self.threads) for folder in (one, other)]
        for translator in both:
            translator.translate(self.lines[:1])  # what is set up at the first call counts for neither
        rates = [[self._tokens_per_second(translator) for translator in both] for _ in range(_ROUNDS)]
        return median(mine / theirs for mine, theirs in rates)

    def _tokens_per_second(self, translator: Translator) -> float:
        started = time.monotonic()
        tokens = sum(translation.tokens + 1 for translation in translator.translate(self.lines))
        return tokens / max(time.monotonic() - started, 1e-9)
