"""Signals end a command with their exit code, after it has cleaned up."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from prefect.utilities.engine import capture_sigterm
from support.until import patient, until

from flows.cli.interruption import Stopped, interruptible


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_the_block_with_its_exit_code(number: int, code: int) -> None:
    former = signal.getsignal(number)
    with pytest.raises(Stopped) as stopped, interruptible():
        os.kill(os.getpid(), number)
    assert stopped.value.exit_code == code
    assert signal.getsignal(number) == former


def test_a_second_signal_does_not_disturb_the_cleaning_up() -> None:
    cleaned = []
    with pytest.raises(Stopped), interruptible():
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            cleaned.append(True)
    assert cleaned


def test_the_third_leaves_at_once() -> None:
    code = (
        "import os, signal; from flows.cli.interruption import interruptible\n"
        "with interruptible():\n"
        "    try: os.kill(os.getpid(), signal.SIGINT)\n"
        "    finally:\n"
        "        os.kill(os.getpid(), signal.SIGINT); os.kill(os.getpid(), signal.SIGINT); print('never')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (130, "")


def test_a_read_that_waits_is_interrupted_whatever_is_imported_inside() -> None:
    """polars installs a handler of its own, with which a read keeps waiting as if no signal had come."""
    code = (
        "import os, sys; from flows.cli.interruption import interruptible\n"
        "with interruptible():\n"
        "    import polars\n"
        "    print('reading', flush=True)\n"
        "    os.read(0, 1)\n"
    )
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout
        assert process.stdout.readline() == b"reading\n"
        # It may still be on its way into the read; a signal that comes sooner is obeyed in any case
        until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_SLEEPING)
        process.send_signal(signal.SIGINT)
        assert process.wait(patient(60)) != 0
    finally:
        process.kill()
        process.communicate()


def test_an_error_without_a_signal_is_left_alone() -> None:
    with pytest.raises(ZeroDivisionError), interruptible():
        raise ZeroDivisionError


class Careless:
    """Object that gets a signal inside its destructor, where Python drops exceptions."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.kill(os.getpid(), self.number)


def test_a_signal_inside_a_destructor_is_not_lost() -> None:
    with pytest.raises(Stopped) as stopped, interruptible():
        del_me = Careless(signal.SIGINT)
        del del_me
        time.sleep(patient(60))
    assert stopped.value.exit_code == 130


def test_neither_is_one_that_prefect_obeys() -> None:
    with pytest.raises(Stopped) as stopped, interruptible(), capture_sigterm():
        del_me = Careless(signal.SIGTERM)
        del del_me
        time.sleep(patient(60))
    assert stopped.value.exit_code == 143
