"""Commands that show or write something before anything is trained: `nmt clean` and `nmt recipes`."""

from pathlib import Path
from typing import Any

import pytest


@pytest.mark.cpu(25)
def test_the_preview_of_cleaning_is_a_page(nmt: Any, recipe: list[str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = nmt("clean", *recipe, "--sample", "300", "--output", str(page))
    counted, place = done.stdout.splitlines()
    kept, _, total = counted.removesuffix(" sampled pairs would be kept").partition(" of ")
    assert 0 < int(kept) < int(total) <= 300
    assert place == str(page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>") and "quickstart" in text
    nowhere = nmt("clean", *recipe, "--sample", "300", "--output", str(tmp_path / "none" / "page.html"), code=1)
    assert "cannot be written (No such file or directory): name another file with -o" in nowhere.stderr


def test_a_recipe_of_an_earlier_version_is_upgraded_in_place(nmt: Any, tmp_path: Path) -> None:
    shown = nmt("recipes").stdout
    assert "quickstart" in shown and "multi30k-many" in shown
    assert "`train.max_updates`" in nmt("recipes", "--options").stdout
    file = tmp_path / "old.yaml"
    file.write_text("base: quickstart\nname: old\ntrain: {slice_tokens: 512}\n", encoding="utf-8")
    said = nmt("recipes", "--upgrade", str(file)).stdout
    assert "slice_tokens" in said and "micro_batch_tokens" in said and said.endswith(f"{file}: 1 change\n")
    assert file.read_text(encoding="utf-8") == "base: quickstart\nname: old\ntrain: {micro_batch_tokens: 512}\n"
    assert nmt("recipes", "--upgrade", str(file)).stdout == f"{file}: no changes needed\n"
