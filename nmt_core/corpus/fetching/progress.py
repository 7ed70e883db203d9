"""Report the progress of several threads' files in one line."""

import threading
import time
from collections.abc import Callable

from nmt_core.errors import counted
from nmt_core.stages.stage import Reporter


class TransferProgress:
    """Bytes of all files together.

    Args:
        corpora: number of corpora.
        clock: clock in seconds, for the rate.
    """

    def __init__(self, corpora: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._corpora = corpora
        self._clock = clock
        self._start = clock()
        self._change = threading.Lock()
        self._files: dict[str, tuple[int, int, int]] = {}
        self._looks: dict[str, tuple[int, int]] = {}

    def on_bytes(self, address: str, done: int, total: int) -> None:
        """Record the progress of a file. May be called from any thread."""
        with self._change:
            first = self._files.get(address, (done, 0, 0))[0]
            self._files[address] = first, done, total

    def on_look(self, address: str, done: int, total: int) -> None:
        """Record the progress of a search by hash in the mirror. May be called from any thread."""
        with self._change:
            self._looks[address] = done, total

    def tell(self, reporter: Reporter, corpora_done: int) -> None:
        """Report the corpora, bytes, rate and remaining time, as far as servers give the sizes of files."""
        with self._change:
            files = list(self._files.values())
            looks = [(address, *look) for address, look in self._looks.items() if look[0] < look[1]]
        done = sum(file[1] for file in files)
        rate = sum(file[1] - file[0] for file in files) / max(self._clock() - self._start, 1e-3)
        left = sum(max(total - come, 0) for _, come, total in files)
        corpora = counted(self._corpora, "corpus", "corpora")
        note = f"{corpora_done} of {corpora}, {done / 1e6:,.1f} of {(done + left) / 1e6:,.1f} MB"
        if left and rate:
            note += f", {rate / 1e6:,.1f} MB/s, {left / rate:,.0f} s left"
        for address, read, in_all in looks[:1]:  # one thread searches at a time
            note += f", looking for {address} in the mirror: {read / 1e6:,.1f} of {in_all / 1e6:,.1f} MB read"
        share = min(corpora_done + done / (done + left) if left else corpora_done, self._corpora)
        reporter.progress(share, self._corpora, note)
