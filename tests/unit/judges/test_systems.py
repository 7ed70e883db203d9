"""Other systems: files, programs, services and models, each translation paid for once."""

import json
import re
import shlex
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from nmt_core.config import LanguagesConfig, PipelineConfig, System
from nmt_core.judges.files import identity
from nmt_core.judges.lines import ProgramError
from nmt_core.judges.systems import SystemTranslator
from nmt_core.translator import Translator

KEY = "secret-key-7f3a"
LANGUAGES = LanguagesConfig(source="de", target="en")
SOURCES = ["ein Haus", "der Hund", "ein Haus", "ja\u2028nein", "und {target}"]
CAPITALS = [" ".join(text.upper().split()) for text in SOURCES]
UPPER = "import sys\nfor line in sys.stdin: print(line.rstrip('\\n').upper())\n"


def translated(
    cache: Path | None, sources: list[str] = SOURCES, *, allow_code: bool = True, test_set: str = "news", **values: Any
) -> list[str]:
    system = System.model_validate({"name": "other"} | values)
    translator = SystemTranslator(system, LANGUAGES, cache, threads=1, allow_code=allow_code)
    return translator.translate(test_set, sources)


FORMS = {
    # form: (options, path, body of the first request, header with the key)
    "libretranslate": ({"batch": 3}, "/translate", {"source": "de", "target": "en", "format": "text"}, None),
    "openai": ({"model": "gpt"}, "/chat/completions", {"model": "gpt", "temperature": 0}, "Bearer "),
    "deepl": ({}, "/v2/translate", {"source_lang": "DE", "target_lang": "EN"}, "DeepL-Auth-Key "),
    "google": ({}, "/language/translate/v2", {"source": "de", "target": "en", "format": "text"}, ""),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_service_translates_and_gets_its_key(
    form: str, service: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    options, path, body, header = FORMS[form]
    monkeypatch.setenv("MY_KEY", KEY)
    service.key = KEY
    found = translated(tmp_path, address=f"{service.address}/", form=form, key="MY_KEY", **options)
    assert found == CAPITALS
    paths, bodies, headers = zip(*service.requests, strict=True)
    assert set(paths) == {path} and bodies[0].items() >= body.items()
    assert len(bodies) == {"libretranslate": 2, "openai": 4}.get(form, 1), "four different sentences"
    values = [bodies[0].get("api_key", "")] if header is None else headers[0].values()
    assert f"{header or ''}{KEY}" in values
    assert KEY not in "".join(file.read_text() for file in tmp_path.iterdir()), "the key is stored nowhere"


def test_nothing_is_paid_for_twice(service: Any, tmp_path: Path) -> None:
    options = {"address": service.address, "batch": 1}
    service.failures = [(200, '{"translatedText": ["EIN HAUS"]}', {}), (403, "the quota is spent", {})]
    with pytest.raises(ProgramError, match="answered 403 \\('the quota is spent'\\)"):
        translated(tmp_path, **options)
    assert len(service.requests) == 2
    assert translated(tmp_path, **options) == CAPITALS
    assert [body["q"] for _, body, _ in service.requests[2:]] == [["der Hund"], ["ja\u2028nein"], ["und {target}"]]
    assert translated(tmp_path, test_set="web", **options) == CAPITALS
    assert len(service.requests) == 5, "all of it is kept"
    translated(tmp_path, version="2", **options)
    assert len(service.requests) == 9, "another version is another system"


def test_a_line_that_was_cut_by_a_kill_is_asked_again(service: Any, tmp_path: Path) -> None:
    translated(tmp_path, address=service.address)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes().rstrip()[:-7])
    assert translated(tmp_path, address=service.address) == CAPITALS
    assert service.requests[-1][1]["q"] == ["und {target}"]
    rows = [line for line in file.read_text().split("\n") if line.endswith("}")]
    assert json.loads(rows[-1])["source"] == "und {target}"


def test_failures_that_may_pass_are_tried_again(service: Any, tmp_path: Path) -> None:
    busy = {"Retry-After": "0"}
    service.failures = [(429, "slow down", busy), (503, "restarting", busy)]
    assert translated(tmp_path, address=service.address, retries=2) == CAPITALS
    assert len(service.requests) == 3
    service.failures = [(500, "broken", busy)] * 2
    with pytest.raises(
        ProgramError, match=r"answered 500 \('broken'\), 2 times: check that it runs, or raise `retries`"
    ):
        translated(None, address=service.address, retries=1)


def test_a_service_that_is_not_there_is_named() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(ProgramError, match=f"{address}: does not answer .* 1 time: check that it runs"):
            translated(None, address=address, retries=0)


def test_a_service_that_hangs_is_left_after_the_time_limit(service: Any) -> None:
    service.goes_on.clear()
    with pytest.raises(ProgramError, match="does not answer"):
        translated(None, address=service.address, request_seconds=0.3, retries=0)
    with pytest.raises(ProgramError, match=r"was not done within 0.3 seconds \(`max_seconds`\)"):
        translated(None, address=service.address, max_seconds=0.3, retries=5)


@pytest.mark.parametrize(
    ("answer", "facts"),
    [
        ("<html>", "Expecting value"),
        ('{"error": "no such pair"}', "the answer has another form than libretranslate: KeyError 'translatedText'"),
        ('{"translatedText": [1, 2, 3, 4]}', "a translation is no text"),
        ('{"translatedText": ["A"]}', "answered with 1 translation for 4 sentences: set `batch` to 1"),
    ],
)
def test_an_answer_of_another_form_is_named(answer: str, facts: str, service: Any) -> None:
    service.failures = [(200, answer, {})]
    with pytest.raises(ProgramError, match=service.address) as raised:
        translated(None, address=service.address)
    assert facts in str(raised.value)


def test_a_key_is_in_no_message_and_must_be_set(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"address": service.address, "form": "openai", "model": "m", "key": "MY_KEY"}
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(ProgramError, match="the environment variable MY_KEY, which `key` names, is not set"):
        translated(None, **options)
    monkeypatch.setenv("MY_KEY", "wrong-key-123")
    service.key = KEY
    with pytest.raises(ProgramError, match="answered 403") as raised:
        translated(None, **options)
    assert "wrong-key-123" not in str(raised.value) and "***" in str(raised.value)


def test_files_have_a_line_for_each_sentence(tmp_path: Path) -> None:
    file = tmp_path / "out.news.txt"
    file.write_text("A\r\nB\n\nD\nE", encoding="utf-8")
    pattern = str(tmp_path / "out.{test_set}.txt")
    assert translated(None, file=pattern) == ["A", "B", "", "D", "E"]
    with pytest.raises(ProgramError, match="has 5 lines for 4 sentences: it must have one translation a line"):
        translated(None, SOURCES[:4], file=pattern)
    with pytest.raises(ProgramError, match=r"out.web.txt: cannot be read"):
        translated(None, test_set="web", file=pattern)


def program(folder: Path, text: str) -> str:
    (folder / "translate.py").write_text(text)
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(folder / 'translate.py'))}"


def test_a_program_reads_lines_and_writes_lines(tmp_path: Path) -> None:
    cache, log = tmp_path / "cache", tmp_path / "log"
    command = program(tmp_path, f"open({str(log)!r}, 'a').write('ran\\n')\n{UPPER}")
    assert translated(cache, ["eins", "zw\nei", "eins"], command=command) == ["EINS", "ZW EI", "EINS"]
    assert translated(cache, ["eins", "zw\nei"], command=command) == ["EINS", "ZW EI"]
    assert log.read_text() == "ran\n"
    program(tmp_path, UPPER + "\n")
    assert translated(cache, ["drei"], command=command) == ["DREI"], "a changed program is another system"
    assert len(list(cache.iterdir())) == 2
    program(tmp_path, "print('one')")
    with pytest.raises(ProgramError, match="wrote 1 line for 2 sentences"):
        translated(cache, ["eins", "zwei"], command=command)


@pytest.mark.parametrize("values", [{"command": "cat"}, {"address": "http://127.0.0.1:9"}])
def test_programs_and_services_are_not_used_where_recipes_may_not_name_code(values: dict[str, str]) -> None:
    """A service would get text and a key from a recipe of anyone who reaches the Prefect server."""
    with pytest.raises(ProgramError, match="NMT_ALLOW_CODE forbids"):
        translated(None, allow_code=False, **values)


def test_a_model_of_this_package_translates_with_its_own_search(tiny_bundle: Path, tmp_path: Path) -> None:
    sources = ["the cat sees a dog.", "a big house"]
    expected = [one.text for one in Translator.load(tiny_bundle).translate(sources)]
    assert translated(tmp_path, sources, bundle=str(tiny_bundle)) == expected
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text().replace(json.dumps(expected[0]), '"kept"'))
    assert translated(tmp_path, sources, bundle=str(tiny_bundle))[0] == "kept"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "needs one of file, command, address, bundle, and has none"),
        ({"file": "a", "command": "b"}, "has file and command: write one"),
        ({"file": "a", "retries": 3}, "retries has no effect on file"),
        ({"address": "ftp://host"}, "must begin with http:// or https://"),
        ({"address": "https://me:secret@host"}, "neither a password nor a query"),
        ({"address": "http://host.invalid", "key": "KEY"}, "a key is sent only over https"),
        ({"address": "https://host.invalid", "form": "deepl"}, "form=deepl needs a key"),
        ({"address": "https://host.invalid", "form": "openai"}, "needs the name of a model"),
        ({"address": "http://127.0.0.1", "form": "openai", "model": "m", "prompt": "{text}"}, "prompt has no {source}"),
        ({"address": "https://host.invalid", "model": "m"}, "model and prompt are only for form=openai"),
    ],
)
def test_options_that_do_not_fit_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        System.model_validate({"name": "other"} | values)


def test_an_evaluation_is_another_one_with_other_outputs_and_the_same_with_a_model_at_another_place(
    tiny_bundle: Path, tmp_path: Path
) -> None:
    def identity_of(**values: Any) -> str:
        system = {"name": "other"} | values
        recipe = {"name": "tiny", "corpus": {"toy": {}}, "evaluate": {"systems": [system]}}
        return json.dumps(identity(PipelineConfig.model_validate(recipe)), sort_keys=True)

    pattern = str(tmp_path / "out.{test_set}.txt")
    found = [identity_of(file=pattern)]
    for text in ("one", "two"):
        (tmp_path / "out.news.txt").write_text(text)
        found.append(identity_of(file=pattern))
    assert len(set(found)) == 3
    copied = tmp_path / "copied"
    shutil.copytree(tiny_bundle, copied)
    both = [identity_of(bundle=str(folder)).replace(str(folder), "") for folder in (tiny_bundle, copied)]
    assert both[0] == both[1]
    assert "systems" not in identity(PipelineConfig.model_validate({"name": "tiny", "corpus": {"toy": {}}}))
