"""A replaced file is either the former one or the new one, even if the process that replaces it is killed."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from nmt_core.store.atomic import remove_drafts, replacing, write_atomically


def test_text_and_bytes_are_written(tmp_path: Path) -> None:
    for content, expected in (("á\n", "á\n".encode()), (b"\x00\xff", b"\x00\xff"), ("", b"")):
        write_atomically(tmp_path / "file", content)
        assert (tmp_path / "file").read_bytes() == expected
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_error_leaves_the_former_file_and_no_draft(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_atomically(file, "former")
    with pytest.raises(ZeroDivisionError), replacing(file) as draft:
        draft.write_text("half")
        raise ZeroDivisionError
    assert file.read_text() == "former"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_killed_process_leaves_the_former_file_and_a_draft_that_is_swept(tmp_path: Path) -> None:
    file = tmp_path / "inner" / "file"
    file.parent.mkdir()
    write_atomically(file, "former")
    (tmp_path / "mine.partial").write_text("not a draft of ours")
    code = (
        "import os, signal, sys; from pathlib import Path; from nmt_core.store.atomic import replacing\n"
        "with replacing(Path(sys.argv[1])) as draft:\n"
        "    draft.write_text('half'); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(file)], check=False)
    assert done.returncode == -9
    assert file.read_text() == "former"
    assert len(list(file.parent.iterdir())) == 2
    remove_drafts(tmp_path)
    assert [path.name for path in file.parent.iterdir()] == ["file"]
    assert (tmp_path / "mine.partial").exists()


def test_a_secret_is_never_readable_by_others(tmp_path: Path) -> None:
    with replacing(tmp_path / "secret", mode=0o600) as draft:
        assert stat.S_IMODE(draft.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
