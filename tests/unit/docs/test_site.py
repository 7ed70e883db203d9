"""The documentation builds strictly, its links lead somewhere, and all names on its pages exist in the code."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from support.until import patient
from typer.main import get_command

import flows.settings
from flows.cli.app import app
from nmt_core.config import CleanConfig, LanguagesConfig, PipelineConfig
from nmt_core.corpus.cleaning.filters import remedies
from nmt_core.corpus.cleaning.thresholds import rules_for
from nmt_core.corpus.duplicates import exact
from nmt_core.corpus.held_out import decontaminate
from nmt_core.recipes.recipe import load_recipe
from nmt_core.recipes.reference import option_reference

ROOT = Path(__file__).parents[3]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
OPTIONS = set(re.findall(r"^\| `([^`]+)`", option_reference(), re.MULTILINE))
SECTIONS = {name for name in PipelineConfig.model_fields if name not in {"name", "description"}}


def program(name: str) -> ModuleType:
    """Import one of the programs in docs/, which is not a package."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check, generate = program("check"), program("generate")


def blocks(page: Path, languages: str) -> Iterator[str]:
    """Yield the fenced blocks of a page that are in one of these languages."""
    for match in re.finditer(
        rf"^( *)```(?:{languages})\b[^\n]*\n(.*?)^\1```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    ):
        yield match[2]


def build(folder: Path) -> "subprocess.CompletedProcess[str]":
    """Build the site of a folder with an mkdocs.yml, strictly, and without a network where the machine allows that."""
    alone = ["unshare", "--map-root-user", "--net"]
    if not shutil.which("unshare") or subprocess.run([*alone, "true"], capture_output=True).returncode:
        alone = []
    zensical = [str(Path(sys.executable).with_name("zensical")), "build", "--strict"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    return subprocess.run(
        [*alone, *zensical], cwd=folder, env=environment, capture_output=True, text=True, timeout=patient(120)
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole site, built from a copy of its sources."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    shutil.copytree(ROOT / "docs", folder / "docs")
    subprocess.run(
        [sys.executable, "docs/generate.py"], cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True
    )
    done = build(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


@pytest.mark.slow
@pytest.mark.cpu(30)
def test_the_site_builds_and_its_links_lead_somewhere(site: Path) -> None:
    assert check.problems(site) == []
    built = {str(file.relative_to(site)) for file in site.rglob("*.html")}
    for page in PAGES:
        name = page.relative_to(ROOT / "docs").with_suffix("")
        assert (
            f"{name.parent / name.name if name.name != 'index' else name.parent}/index.html".removeprefix("./") in built
        )


@pytest.mark.slow
@pytest.mark.cpu(30)
def test_every_member_of_the_python_api_has_a_page(site: Path) -> None:
    text = "".join(file.read_text(encoding="utf-8") for file in site.glob("reference/api/*/index.html"))
    for name in (
        "nmt_core.translator.Translator.translate",
        "nmt_core.recipes.recipe.load_recipe",
        "nmt_core.config.pipeline.PipelineConfig.model_name",
        "nmt_core.stages.stage.run_stage",
        "nmt_core.store.artifacts.Store.find",
    ):
        assert f'id="{name}"' in text, name


@pytest.mark.slow
def test_a_broken_link_or_anchor_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    small = {name: settings[name] for name in ("site_name", "theme", "validation", "strict")}
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(small), encoding="utf-8")
    page = tmp_path / "docs" / "index.md"
    for text, code in (("# A\n\n[b](#a)", 0), ("# A\n\n[b](gone.md)", 1), ("# A\n\n[b](#gone)", 1)):
        page.write_text(text, encoding="utf-8")
        assert build(tmp_path).returncode == code, text


def test_the_check_names_the_page_and_the_link(tmp_path: Path) -> None:
    assert "build the site first" in "".join(check.problems(tmp_path))
    (tmp_path / "other.html").write_text('<h1 id="there">x</h1>')
    (tmp_path / "index.html").write_text(
        '<a href="other.html#there">fine</a> <a href="other.html#gone">x</a> <a href="gone.html">x</a>'
        '<a href="https://example.org">fine</a> <img src="https://example.org/x.png">'
        '<script src="//cdn/x.js"></script>'
    )
    (tmp_path / "style.css").write_text("a { background: url(https://example.org/x.png) }")
    assert sorted(check.problems(tmp_path)) == [
        f"{tmp_path.resolve()}: no search.json: the search has nothing to read",
        "index.html: gone.html leads nowhere",
        "index.html: loads //cdn/x.js",
        "index.html: loads https://example.org/x.png",
        "index.html: other.html#gone: that page has no such anchor",
        "style.css: loads something from another host",
    ]


def test_each_command_and_option_of_the_program_is_in_the_reference() -> None:
    page = generate.commands()
    for path, command in leaves():
        part = page.partition(f"## {path} {{")[2].partition("\n## ")[0]
        assert part, path
        for name in flags(command):
            assert f"`{name}`" in part, f"{path} {name}"


def test_each_option_of_a_recipe_is_in_the_reference_with_an_anchor() -> None:
    page = generate.options()
    for name in OPTIONS:
        assert f"| `{name}`" in page
        assert "..." in name or f"#{re.sub('[^a-z0-9_.]', '', name).replace('.', '-')} }}" in page
    assert len(re.findall(r"\{ #(\S+) \}", page)) == len(set(re.findall(r"\{ #(\S+) \}", page)))


def test_each_setting_that_the_code_reads_is_in_the_reference() -> None:
    page = generate.settings()
    files = [*(ROOT / "flows").rglob("*.py"), *(ROOT / "nmt_core").rglob("*.py")]
    read = {name for file in files for name in re.findall(r'"(NMT_[A-Z_]+)"', file.read_text(encoding="utf-8"))}
    assert read >= {"NMT_HOME", "NMT_THREADS", "NMT_STRICT_VERSIONS"}
    listed = {name for names, _ in generate.setting_entries(flows.settings.__doc__) for name in names}
    assert {name for name in listed if f"`{name}`" not in page} == set()
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    shown = {name for name in read - listed if f"`{name}" in pages}
    assert shown == set(), "settings that people set are in the table of flows/settings"


def test_a_docstring_without_a_table_of_settings_is_refused() -> None:
    with pytest.raises(ValueError, match=r"flows\.settings"):
        list(generate.setting_entries("Settings of this machine."))


def leaves() -> list[tuple[str, Any]]:
    """Return each command of the program, with the words that call it."""
    return list(generate.leaves(get_command(app), "nmt"))


def flags(command: Any) -> set[str]:
    """Return the names of a command's options."""
    return {name for each in command.params if each.param_type_name == "option" for name in each.opts}


def typed() -> list[tuple[str, str]]:
    """Return each `nmt` command that a page shows, with the page."""
    lines = []
    for page in PAGES:
        for block in (*blocks(page, "console"), *blocks(page, "sh")):
            for line in re.findall(r"(?:^|\| |=\S+ )(?:\$ )?(nmt [^|\n]+)", block, re.MULTILINE):
                lines.append((str(page.relative_to(ROOT)), line))
    return lines


@pytest.mark.parametrize(("page", "line"), typed())
def test_commands_on_the_pages_exist_with_their_options(page: str, line: str) -> None:
    words = shlex.split(line, comments=True)
    known = dict(leaves())
    path = " ".join(words[:3]) if words[1] == "artifacts" else " ".join(words[:2])
    assert path in known, f"{page}: {line}"
    assert {word for word in words if word.startswith("--")} <= flags(known[path]), f"{page}: {line}"
    for key in re.findall(r"(?:--set |\+)([a-z_.]+)=", line):
        assert key in OPTIONS, f"{page}: {key}"


FILES = (".py", ".md", ".json", ".yaml", ".txt", ".jsonl", ".npz", ".safetensors")
"""Suffixes of names that are files, although they begin like an option."""


@pytest.mark.parametrize("page", [str(page.relative_to(ROOT)) for page in PAGES])
def test_options_that_a_page_names_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for name in re.findall(r"`([a-z_]+\.[a-z_]+)(?:: [^`]*)?`", text):
        section = name.partition(".")[0]
        if section in SECTIONS and not name.endswith(FILES):
            assert name in OPTIONS, f"{page}: {name}"


SIDES = ("source", "target")
CORPORA = ["mine", "crawled", "back-translated", "subtitles"]
FRAGMENTS = [
    (str(page.relative_to(ROOT)), text) for page in PAGES for text in blocks(page, "yaml") if "base:" not in text
]


@pytest.mark.parametrize(("page", "text"), FRAGMENTS)
def test_parts_of_recipes_on_the_pages_are_valid(page: str, text: str) -> None:
    corpora = {"train": [{"name": name, "address": f"{name}.tsv"} for name in CORPORA]}
    languages = {"source": "en", "target": "de"}
    small = {"name": "x", "languages": languages, "corpus": corpora, "encode": {"max_length": 64}}
    PipelineConfig.model_validate(small | yaml.safe_load(text))


def titled(page: Path) -> dict[str, str]:
    """Return the recipes of a page that have the name of a file, by this name."""
    text = page.read_text(encoding="utf-8")
    return dict(re.findall(r'^```yaml title="([\w.-]+\.yaml)"\n(.*?)^```$', text, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("page", [str(page.relative_to(ROOT)) for page in PAGES if "\nbase: " in page.read_text()])
def test_recipes_that_begin_with_another_one_are_found_and_valid(page: str, tmp_path: Path) -> None:
    """All pages are one folder of recipes, because some begin with the recipe of an earlier page."""
    for name, text in (
        {key: text for each in PAGES for key, text in titled(each).items()} | titled(ROOT / page)
    ).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    of_page = [text for text in blocks(ROOT / page, "yaml") if "base:" in text]
    assert of_page
    for text in of_page:
        (tmp_path / "own.yaml").write_text(text, encoding="utf-8")
        load_recipe(str(tmp_path / "own.yaml"))


def test_figures_of_the_benchmarks_are_those_that_were_measured() -> None:
    record = "".join(
        (ROOT / file).read_text(encoding="utf-8") for file in ("docs/reference/benchmarks-record.md", "README.md")
    )
    rows = [line for line in (ROOT / "docs/reference/benchmarks.md").read_text().splitlines() if line.startswith("|")]
    figures = [figure for row in rows for figure in re.findall(r"\d[\d,.]*\d", re.sub(r"2026-\d\d(-\d\d)?", "", row))]
    assert len(figures) > 80
    assert [figure for figure in figures if figure not in record] == []


def test_the_table_of_filters_has_every_reason_with_its_option() -> None:
    switches = ("numbers", "addresses", "end_marks", "brackets")
    options = {f"{name}_must_match": True for name in switches} | {f"{side}_word_list": "words" for side in SIDES}
    rules = rules_for(CleanConfig.model_validate(options), LanguagesConfig(source="en", target="de"), "mine")
    reasons = remedies(rules) | exact.REMEDIES | {decontaminate.REASON: decontaminate.REMEDY}
    assert len(reasons) > 25
    table = [line for line in (ROOT / "docs/reference/filters.md").read_text().splitlines() if line.startswith("| `")]
    for reason, option in reasons.items():
        rows = [row for row in table if f"`{reason}`" in row.split("|")[1]]
        assert len(rows) == 1, reason
        section, _, name = option.partition(".")
        assert section != "clean" or f"`{name}`" in rows[0].split("|")[3], f"{reason}: {option}"


@pytest.mark.parametrize("page", [str(page.relative_to(ROOT)) for page in PAGES])
def test_files_that_a_page_names_exist(page: str) -> None:
    folders = "nmt_core|flows|infra|tests|benchmarks|docs"
    names = re.findall(rf"`((?:{folders})/[\w./-]*)[^`]*`", (ROOT / page).read_text(encoding="utf-8"))
    made_by_the_user = {"infra/.env"}
    assert {name for name in names if not (ROOT / name).exists()} <= made_by_the_user


def test_the_guide_to_a_report_explains_each_of_its_parts() -> None:
    sample = (ROOT / "infra/sample-report.html").read_text(encoding="utf-8")
    sections = re.findall(r"<h2[^>]*>([^<]+)", sample)
    source = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "flows/html_report").glob("*.py"))
    assert [title for title in sections if f'"{title}"' not in source] == [], "the sample is of today's report"
    guide = (ROOT / "docs/how-to/read-a-report.md").read_text(encoding="utf-8")
    first, *explained = re.findall(r"^\| ([^|]+) \|", guide, re.MULTILINE)[2:]
    assert first == "the tiles"
    assert explained == sections
