"""Documents in a job: nothing is lost, a killed job resumes, and files that would be ruined are refused."""

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
from support.documents import DOCUMENTS, HTML, OPTIONS, PO, TMX, opened

from nmt_core.errors import ConfigError, DataError, StageError
from nmt_core.formats.single import Columns
from nmt_core.jobs import run as run_module
from nmt_core.jobs import stream
from nmt_core.jobs.chunk import ChunkResult, ChunkTask, translate_chunk
from nmt_core.jobs.inputs import find_inputs
from nmt_core.jobs.reading import Pipe

PAGE = b"<p>the cat sees a <b>dog</b>.</p>\r\n<p>now <code>x</code></p>" * 20


class StoppedError(Exception):
    """Exception in place of a kill."""


def stop_after(chunks: int, patch: pytest.MonkeyPatch) -> None:
    left = chunks

    def translate(task: ChunkTask) -> ChunkResult:
        nonlocal left
        if not left:
            raise StoppedError
        left -= 1
        return translate_chunk(task)

    patch.setattr(run_module, "translate_chunk", translate)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_translated_into_a_document(name: str, job: Any, tmp_path: Path) -> None:
    form, content = DOCUMENTS[name]
    source, target = tmp_path / f"in.{'md' if form == 'markdown' else form}", tmp_path / "out"
    source.write_bytes(content)
    search = job.search.model_copy(update={"alignments": "words"})
    outcome = job.run(source, target, search=search, documents=OPTIONS)
    segments = opened(content, form).segments
    assert outcome.done.lines == len(segments)
    faults = [one.fault for one in segments if one.fault]
    assert {fault: outcome.done.statuses[fault] for fault in faults} == {one: faults.count(one) for one in faults}
    written = target.read_bytes()
    assert written != content
    again = opened(written, form, OPTIONS.model_copy(update={"redo": "all"}))
    assert len(again.segments) == len(segments)
    assert not [file.name for file in tmp_path.iterdir() if file.name not in (source.name, "out", "out.job")]


def test_a_document_job_that_is_killed_resumes_with_the_same_bytes(
    job: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in.html").write_bytes(PAGE)
    job.run(tmp_path / "in.html", tmp_path / "undisturbed.html", documents=OPTIONS)
    with monkeypatch.context() as patch, pytest.raises(StoppedError):
        stop_after(2, patch)
        job.run(tmp_path / "in.html", tmp_path / "out.html", documents=OPTIONS)
    order = job.order(tmp_path / "in.html", tmp_path / "out.html", documents=OPTIONS)
    (tmp_path / "in.html").unlink()  # it has been copied
    outcome = run_module.run_job(run_module.JobRequest("tiny"), order, job.folder(order), job.means)
    assert outcome.translated == outcome.done.lines - 16 == 24
    assert (tmp_path / "out.html").read_bytes() == (tmp_path / "undisturbed.html").read_bytes()
    assert sorted(file.name for file in (tmp_path / "out.html.job").iterdir()) == [
        "done.json",
        "plan.json",
        "profile.json",
    ]


def test_the_tags_of_a_page_stay_and_so_does_everything_between(job: Any, tmp_path: Path) -> None:
    (tmp_path / "in.html").write_bytes(PAGE)
    for alignments in ("none", "words"):
        search = job.search.model_copy(update={"alignments": alignments})
        job.run(tmp_path / "in.html", tmp_path / f"{alignments}.html", search=search, documents=OPTIONS)
        page = (tmp_path / f"{alignments}.html").read_bytes()
        assert (
            page.count(b"<b>")
            == page.count(b"</b>")
            == page.count(b"<code>x</code></p>") + page.count(b"<code>x</code>") - page.count(b"<code>x</code></p>")
            == 20
        )
        assert page.count(b"</p>\r\n<p>") == 20
    assert not (tmp_path / "words.html.alignment").exists()


def test_a_folder_of_documents_tables_and_packed_files(job: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.po.gz").write_bytes(gzip.compress(PO))
    (folder / "b.txt").write_bytes(b"now\n<!DOCTYPE html><html>\n")
    (folder / "c.html").write_bytes(b"")
    (folder / "d.htm").write_bytes(b"<p>1 2 3</p>")
    job.run(folder, tmp_path / "out", documents=OPTIONS)
    assert gzip.decompress((tmp_path / "out" / "a.po.gz").read_bytes()).startswith(PO[:90])
    assert (tmp_path / "out" / "b.txt").read_bytes().count(b"\n") == 2
    assert (tmp_path / "out" / "c.html").read_bytes() == b""
    assert (tmp_path / "out" / "d.htm").read_bytes() == b"<p>1 2 3</p>"


def test_the_segments_of_documents_may_go_to_a_table(job: Any, tmp_path: Path) -> None:
    (tmp_path / "in.tmx").write_bytes(TMX)
    job.run(tmp_path / "in.tmx", tmp_path / "out.jsonl", documents=OPTIONS)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["source"] for row in rows] == ["Press Enter now — go.", "A dog", "A cow", ""]
    assert [row["status"] for row in rows][1::2] == ["already_translated", "missing_language"]


def test_translations_with_letters_that_the_charset_lacks_stay_out_and_are_counted(job: Any, tmp_path: Path) -> None:
    po = b'msgid ""\nmsgstr "Content-Type: text/plain; charset=iso-8859-1\\n"\n\nmsgid "the \xfcber cat"\nmsgstr ""\n'
    (tmp_path / "in.po").write_bytes(po)
    assert job.run(tmp_path / "in.po", tmp_path / "out.po").done.statuses.get("not_in_charset") is None
    assert (tmp_path / "out.po").read_bytes() != po
    search = job.search.model_copy(update={"target_prefix": "나는"})
    outcome = job.run(tmp_path / "in.po", tmp_path / "korean.po", search=search)
    assert outcome.done.statuses == {"not_in_charset": 1}
    assert (tmp_path / "korean.po").read_bytes() == po


def test_a_segment_that_is_too_long_stays_and_is_counted(job: Any, tmp_path: Path) -> None:
    page = b"<p>" + b"x" * 1_100_000 + b"<p>now"
    (tmp_path / "in.html").write_bytes(page)
    outcome = job.run(tmp_path / "in.html", tmp_path / "out.html", documents=OPTIONS)
    assert outcome.done.statuses["too_long_line"] == 1
    assert (tmp_path / "out.html").read_bytes().startswith(page[:-3])


REFUSED: dict[str, tuple[str, bytes, str, dict[str, Any], type[Exception], str]] = {
    "a column": (
        "in.po",
        PO,
        "out.po",
        {"column": "x"},
        DataError,
        r"in\.po: a document without columns: leave out --col",
    ),
    "kept columns": (
        "in.po",
        PO,
        "out.jsonl",
        {"keep": ("all",)},
        DataError,
        r"in\.po: is a document, .*leave out --keep",
    ),
    "another format": (
        "in.po",
        PO,
        "out.html",
        {},
        ConfigError,
        r"out\.html: a html document .*in\.po is a po document",
    ),
    "text": (
        "in.txt",
        b"now\n",
        "out.po",
        {},
        ConfigError,
        r"out\.po: a po document .*in\.txt is text: name the output",
    ),
    "damaged": ("in.tmx", TMX[:300], "out.tmx", {}, DataError, r"in\.tmx, line 9: is not well-formed XML"),
    "PO under another name": (
        "in.de",
        PO,
        "out.de",
        {},
        DataError,
        r"in\.de: looks like a \.po document.* name .*\*\.po",
    ),
    "TMX under another name": ("in", TMX, "out", {}, DataError, r"in: looks like a \.tmx document"),
    "HTML under another name": ("in.php", HTML, "out.php", {}, DataError, r"looks like a \.html document"),
    "docx under another name": ("in.doc", DOCUMENTS["docx"][1], "out", {}, DataError, r"looks like a \.docx document"),
    "SRT under another name": ("in.sub", DOCUMENTS["srt"][1], "out", {}, DataError, r"looks like a \.srt document"),
    "VTT under another name": ("in.en", DOCUMENTS["vtt"][1], "out", {}, DataError, r"looks like a \.vtt document"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_be_ruined_is_refused(case: str, job: Any, tmp_path: Path) -> None:
    name, content, target, changes, error, message = REFUSED[case]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=message):
        job.run(tmp_path / name, tmp_path / target, documents=OPTIONS, **changes)
    assert not (tmp_path / target).exists()


def test_several_documents_do_not_become_one(job: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a.po", "b.po"):
        (tmp_path / "in" / name).write_bytes(PO)
    with pytest.raises(ConfigError, match=r"all\.po: a document holds .*there are 2 inputs: name a folder"):
        job.run(tmp_path / "in", tmp_path / "all.po", documents=OPTIONS)
    search = job.search.model_copy(update={"beam_size": 2, "n_best": 2})
    with pytest.raises(ConfigError, match=r"out\.po: can hold one translation"):
        job.run(tmp_path / "in" / "a.po", tmp_path / "out.po", search=search)


def test_a_document_that_another_version_reads_differently_is_refused(
    job: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in.html").write_bytes(PAGE)
    with monkeypatch.context() as patch, pytest.raises(StoppedError):
        stop_after(2, patch)
        job.run(tmp_path / "in.html", tmp_path / "out.html")
    order = job.order(tmp_path / "in.html", tmp_path / "out.html")
    Path(job.folder(order).parts(order.fingerprint).document(0)).write_bytes(PAGE[:-60])
    with pytest.raises(StageError, match=r"out\.html: the document has \d+ segments, but the job has cut 40: another"):
        job.run(tmp_path / "in.html", tmp_path / "out.html")


def test_a_document_in_a_pipe_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"standard input: looks like a \.po document.*give it with --input"):
        list(stream.piped(Pipe(io.BytesIO(PO)), Columns("")))
    (tmp_path / "page").write_bytes(HTML)
    with pytest.raises(DataError, match=r"page: looks like a \.html document"):
        list(stream.stored(find_inputs(str(tmp_path / "page")), Columns("")))
