"""Run a program that reads lines and writes lines, with a limit on its time."""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess

from nmt_core.corpus.cleaning.scorers import last_words
from nmt_core.errors import NmtError
from nmt_core.execution.processes import bound_to_us, end

_GRACE_SECONDS = 5.0


class ProgramError(NmtError):
    """Error of one program. Only its own result is missing."""


def require_code(place: str, *, allow_code: bool) -> None:
    """Reject a program that a recipe names, where recipes may not name code to run.

    Raises:
        ProgramError: `allow_code` is False.
    """
    if not allow_code:
        raise ProgramError(
            f"{place}: the recipe names a program to run, which NMT_ALLOW_CODE forbids here (the default for recipes "
            "from a Prefect server): run the recipe with `nmt run`, or set NMT_ALLOW_CODE=1 for the worker if everyone "
            "who can reach that server may run programs there"
        )


def run_program(command: str, given: bytes, max_seconds: float, trial: str) -> tuple[list[str], str]:
    """Return the lines that a program wrote, and the end of its error output in parentheses.

    Args:
        command: program with its arguments. It runs without a shell.
        given: its standard input.
        max_seconds: longest time. Then it is ended with all processes that it has started.
        trial: input with which a user can run it by hand, for messages.

    Raises:
        ProgramError: it cannot be started, fails, or takes too long.
    """
    place, words = f"`{command}`", shlex.split(command)
    if not shutil.which(words[0]):
        raise _cannot_start(place, "there is no such program")
    try:
        process = subprocess.Popen(
            bound_to_us(words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise _cannot_start(place, error.strerror or str(error)) from None
    try:
        written, said = process.communicate(given, timeout=max_seconds)
    except subprocess.TimeoutExpired:
        raise ProgramError(
            f"{place}: was not done within {max_seconds:g} seconds (`max_seconds`), and was ended: raise the "
            "limit, or let the program use a faster device"
        ) from None
    finally:
        if process.poll() is None:
            end(process, _GRACE_SECONDS)
        with contextlib.suppress(ProcessLookupError):  # what it has started and left behind
            os.killpg(process.pid, signal.SIGKILL)
    tail = last_words(said)
    if process.returncode:
        cause = f"signal {-process.returncode}" if process.returncode < 0 else f"exit code {process.returncode}"
        raise ProgramError(f"{place}: ended with {cause}{tail}: run it by hand with {trial}")
    text = written.decode("utf-8", "replace").replace("\r\n", "\n")
    return text.removesuffix("\n").split("\n") if text else [], tail


def _cannot_start(place: str, reason: str) -> ProgramError:
    return ProgramError(
        f"{place}: cannot be started ({reason}): install it where the evaluation runs, or correct the command"
    )
