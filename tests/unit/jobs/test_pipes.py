"""A pipe is answered as soon as no more input has arrived. Input that would be misread is refused with one line."""

import io
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl
import pytest
from support.facts import raises

from nmt_core.errors import DataError
from nmt_core.formats.single import Columns
from nmt_core.jobs import makers, stream
from nmt_core.jobs.inputs import find_inputs
from nmt_core.jobs.order import JobRequest, ModelVersion
from nmt_core.jobs.reading import Pipe
from nmt_core.jobs.run import run_job
from nmt_core.translator import Translator

MODEL = ModelVersion(name="tiny", version="1", sha256="")


@contextmanager
def service(job: Any, *, at_once: bool = False) -> Iterator[tuple[BinaryIO, BinaryIO, list[int]]]:
    """Yield the ends of the pipes of a translating thread, and the sizes of the groups that it has written."""
    (read_source, write_source), (read_target, write_target) = os.pipe(), os.pipe()
    sizes: list[int] = []
    translator = Translator.load(job.bundle, job.search)

    def work() -> None:
        with os.fdopen(read_source, "rb") as source, os.fdopen(write_target, "wb") as target:
            pipe, write = Pipe(source), stream.to_pipe(target, job.search)

            def take(read: pl.DataFrame, rows: pl.DataFrame) -> None:
                sizes.append(rows.height)
                write(read, rows)

            cells = stream.piped(pipe, Columns(""))
            stream.translate_stream(cells, translator, MODEL, take, at_once=at_once, pipe=pipe)

    thread = threading.Thread(target=work)
    thread.start()
    with os.fdopen(write_source, "wb", buffering=0) as to, os.fdopen(read_target, "rb") as answers:
        yield to, answers, sizes  # type: ignore[misc]  # without a buffer it is a raw file
        to.close()
        thread.join()


def test_a_program_at_the_other_end_gets_its_answer_at_once(job: Any) -> None:
    expected = [one.text for one in Translator.load(job.bundle, job.search).translate(["now", "the cat", "a dog"])]
    with service(job) as (to, answers, sizes):
        to.write(b"now\n")  # shorter than the signature of a packed file
        assert answers.readline().decode() == f"{expected[0]}\n"
        to.write(b"the cat\na d")
        assert answers.readline().decode() == f"{expected[1]}\n"
        to.write(b"og\n")
        assert answers.readline().decode() == f"{expected[2]}\n"
    assert sizes == [1, 1, 1]


def test_what_has_arrived_is_translated_together_unless_line_by_line_is_wanted(job: Any) -> None:
    for at_once, expected in ((False, [300]), (True, [1] * 300)):
        with service(job, at_once=at_once) as (to, answers, sizes):
            to.write(b"now\n" * 300)
            assert [answers.readline() for _ in range(300)]
        assert sizes == expected


@pytest.mark.parametrize("charset", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_a_text_in_another_charset_is_read(charset: str, job: Any, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes("the cat\n나는\n".encode(charset))
    job.run(tmp_path / "in.txt", tmp_path / "out.parquet")
    assert pl.read_parquet(tmp_path / "out.parquet")["source"].to_list() == ["the cat", "나는"]


def test_quotes_around_the_fields_of_tsv_are_refused(job: Any, tmp_path: Path) -> None:
    quoted = ['"id"\t"text"\n"1"\t"now"\n"2"\t"the cat"\n', 'id\ttext\n1\t"now"\n2\t"a ""dog"""\n3\t"the cat"\n']
    for number, text in enumerate(quoted):
        (tmp_path / f"{number}.tsv").write_text(text)
        with raises(DataError, rf"{number}\.tsv", "quotes", r"\.csv"):
            job.run(tmp_path / f"{number}.tsv", tmp_path / "out.parquet", column="text" if number else "")
    (tmp_path / "some.tsv").write_text('id\ttext\n1\t"now"\n2\ta dog\n')
    assert job.run(tmp_path / "some.tsv", tmp_path / "out.parquet").done.lines == 2


def test_pipes_and_growing_files_are_no_input_of_a_job(job: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with raises(DataError, "fifo", "only once", "standard input: <"):
        find_inputs(str(tmp_path / "fifo"))
    (tmp_path / "in.txt").write_text("now\n")
    order = job.order(tmp_path / "in.txt", tmp_path / "out.txt")
    with (tmp_path / "in.txt").open("a") as file:
        file.write("the cat\n")
    with raises(DataError, r"in\.txt", "still being written", "4 bytes", "now 12", "wait"):
        run_job(JobRequest("tiny"), order, job.folder(order), job.means)


def test_a_resumed_job_says_what_is_done_and_which_code_did_it(
    job: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in.txt").write_text("now\n" * 40)
    order, said = job.order(tmp_path / "in.txt", tmp_path / "out.txt"), list[str]()

    def stop(done: float, total: float, note: str) -> None:
        if total and done >= 16:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_job(JobRequest("tiny"), order, job.folder(order), replace(job.means, progress=stop, say=said.append))
    assert said == []
    monkeypatch.setattr("nmt_core.jobs.run.this_maker", lambda: "new code")
    monkeypatch.setattr("nmt_core.jobs.chunk.this_maker", lambda: "new code")
    outcome = run_job(JobRequest("tiny"), order, job.folder(order), replace(job.means, say=said.append))
    assert said[0] == "resuming: 16 of 40 done"
    assert "chunks 1-2 by code" in said[1] and "new code" in said[1]
    assert outcome.done.made_by == {makers.this_maker(): "1-2", "new code": "3-5"}


def test_a_stream_without_a_descriptor_is_read_to_its_end() -> None:
    cells = stream.piped(Pipe(io.BytesIO(b"now\nthen\n")), Columns(""))
    assert [cell.text for cell in cells] == ["now", "then"]
