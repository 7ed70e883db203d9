"""Progress of downloads: bytes, rate and time left."""

from nmt_core.corpus.fetching.progress import TransferProgress
from nmt_core.stages.stage import SilentReporter

MB = 1_000_000


class Told(SilentReporter):
    """Reporter that keeps the last message."""

    done = total = 0.0
    note = ""

    def progress(self, done: float, total: float, note: str = "") -> None:
        self.done, self.total, self.note = done, total, note


def told_of(progress: TransferProgress, corpora_done: int) -> Told:
    told = Told()
    progress.tell(told, corpora_done)
    return told


def test_bytes_of_all_files_with_rate_and_time_left() -> None:
    now = [0.0]
    progress = TransferProgress(4, clock=lambda: now[0])
    now[0] = 10
    progress.on_bytes("a", 0, 80 * MB)
    progress.on_bytes("b", 0, 20 * MB)
    progress.on_bytes("a", 20 * MB, 80 * MB)
    progress.on_bytes("b", 5 * MB, 20 * MB)

    told = told_of(progress, 1)

    assert told.note == "1 of 4 corpora, 25.0 of 100.0 MB, 2.5 MB/s, 30 s left"
    assert (told.done, told.total) == (1.25, 4)


def test_what_an_earlier_run_fetched_does_not_make_this_one_faster() -> None:
    progress = TransferProgress(1)
    progress.on_bytes("a", 50 * MB, 100 * MB)

    assert told_of(progress, 0).note == "0 of 1 corpus, 50.0 of 100.0 MB"


def test_what_is_read_of_the_mirror_is_told_until_it_has_been_read() -> None:
    progress = TransferProgress(2)
    progress.on_look("https://a.invalid/x", 3 * MB, 7 * MB)
    during = told_of(progress, 0).note
    progress.on_look("https://a.invalid/x", 7 * MB, 7 * MB)

    assert during == "0 of 2 corpora, 0.0 of 0.0 MB, looking for https://a.invalid/x in the mirror: 3.0 of 7.0 MB read"
    assert told_of(progress, 0).note == "0 of 2 corpora, 0.0 of 0.0 MB"


def test_a_file_of_unknown_size_is_counted_as_far_as_it_has_come() -> None:
    progress = TransferProgress(1)
    progress.on_bytes("a", 0, 0)
    progress.on_bytes("a", 3 * MB, 0)

    assert told_of(progress, 1).note == "1 of 1 corpus, 3.0 of 3.0 MB"
