"""Remove from an environment what no program of the image reads: tests, C headers, symbols, and all bytecode.

    python slim.py

The imports of `precompile.py`, which follow in the build, fail if something that is needed is gone. They also write the
bytecode that is worth its space.
"""

import shutil
import subprocess
import sysconfig
from pathlib import Path

_FOLDERS = ("tests", "test", "include")  # of packages
_BYTECODE = "__pycache__"
_PROGRAMS = ("torch/bin/test_*", "torch/bin/protoc*")  # torch_shm_manager beside them is needed
_LARGE = 5_000_000  # bytes: below that, symbols are not worth the time


def slim(packages: Path) -> None:
    """Remove folders, and the symbols of large libraries."""
    for folder in [*packages.glob("*/*/"), *packages.glob("*/*/*/")]:
        if folder.name in _FOLDERS and folder.is_dir():
            shutil.rmtree(folder)
    for folder in [*packages.rglob(_BYTECODE)]:
        shutil.rmtree(folder)
    for program in [file for pattern in _PROGRAMS for file in packages.glob(pattern)]:
        program.unlink()
    for library in packages.rglob("*.so*"):
        # What auditwheel has put beside a package was rewritten by patchelf, which strip may break.
        if not library.is_symlink() and library.stat().st_size > _LARGE and not library.parent.name.endswith(".libs"):
            subprocess.run(["/usr/bin/strip", "--strip-unneeded", str(library)], check=True)


if __name__ == "__main__":
    slim(Path(sysconfig.get_path("purelib")))
