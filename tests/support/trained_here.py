"""Training in this process, which has imported the modules that a launched process needs five seconds to import."""

import contextlib
import io
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from nmt_core.errors import NmtError
from nmt_core.train.__main__ import train
from nmt_core.train.distributed import World
from nmt_core.train.status import Status, write_status


@dataclass
class _Heard(io.TextIOBase):
    """Stream that passes on each line that is printed."""

    take: Callable[[str], object]
    said: list[str] = field(default_factory=list)

    def write(self, text: str) -> int:
        """See `TextIOBase.write`. A line comes whole, with its end."""
        for line in text.splitlines():
            self.said.append(line)
            self.take(line)
        return len(text)

    def lines(self) -> Iterator[str]:
        """See `Launched.lines`."""
        return iter(self.said)

    def wait(self) -> int:
        """See `Launched.wait`."""
        return 0


@dataclass(frozen=True)
class Here:
    """Launcher that trains in this process, as a process group of one, and ends as a launched process would."""

    world: World
    take: Callable[[str], object] = lambda _: None
    """Function that gets each line when it is printed. The stage gets all lines at the end."""

    @contextlib.contextmanager
    def launch(self, folder: Path) -> Iterator[_Heard]:
        """See `Launcher.launch`."""
        heard = _Heard(self.take)
        handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            with contextlib.redirect_stdout(heard):
                write_status(folder, train(folder, self.world))
        except NmtError as error:
            write_status(folder, Status("failed", error=f"{error}"))
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        yield heard
