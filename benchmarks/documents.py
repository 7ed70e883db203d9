"""Translate real documents of this machine, and check that everything but the text stays.

    python benchmarks/documents.py --model FOLDER

HTML and Markdown are taken from the roots as they are, and PO comes from there too: as .po, or from .mo by `msgunfmt`
of gettext. XLIFF, TMX, subtitles and Word documents are written with the messages of these. Each document is

1. opened, and put together again with its own text as the translation: the bytes must be the same;
2. translated by `nmt translate` with the model: a parser of another library must accept it (lxml, msgfmt, html.parser,
   markdown-it, zipfile), and find the same tags, addresses, code and times. Without a model, the translations are the
   words of the source in any order, which moves tags farther than a model does.

Prints a table, and exits with 1 if a document differs.
"""

import argparse
import html
import io
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import lxml.etree
from markdown_it import MarkdownIt

from nmt_core.documents.document import Options, Translated
from nmt_core.documents.opening import format_by_name, open_document
from nmt_core.errors import NmtError

WANTED = {"html": 400, "md": 200, "po": 250, "xlf": 40, "tmx": 40, "srt": 20, "vtt": 20, "docx": 30}
ALL = Options(redo="all")
_MESSAGE = re.compile(r'^msgid "((?:[^"\\]|\\.){4,200})"$', re.MULTILINE)
_WORDS = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_TIME = re.compile(r"^.*-->.*$|^\d+\r?$|^WEBVTT.*$", re.MULTILINE)


def found(roots: list[Path], most_bytes: int, draw: random.Random) -> Iterator[tuple[str, bytes]]:
    """Yield suffix and content of real documents, as many of each as are wanted."""
    files = sorted({file for root in roots for file in root.rglob("*.*") if not file.is_symlink() and file.is_file()})
    draw.shuffle(files)
    left = dict(WANTED)
    seen: set[int] = set()
    for file in files:
        suffix = {".htm": "html", ".html": "html", ".md": "md", ".po": "po", ".mo": "po"}.get(file.suffix, "")
        if not left.get(suffix) or not 200 < file.stat().st_size <= most_bytes:
            continue
        content = file.read_bytes()
        if file.suffix == ".mo":
            content = subprocess.run(["msgunfmt", file], capture_output=True, check=False).stdout
        if suffix == "po":  # into any language: a file into another language than the model's is refused
            content = re.sub(rb'"Language: [^"]*"\n', b"", content)
        if not content or hash(content) in seen:
            continue
        seen.add(hash(content))
        left[suffix] -= 1
        yield suffix, content


def written(messages: list[str], draw: random.Random) -> Iterator[tuple[str, bytes]]:
    """Yield suffix and content of documents with real messages."""
    for suffix, make in {"xlf": xliff, "tmx": tmx, "srt": srt, "vtt": vtt, "docx": docx}.items():
        for _ in range(WANTED[suffix]):
            yield suffix, make(draw.sample(messages, min(30, len(messages))))


def xliff(texts: list[str]) -> bytes:
    units = "".join(
        f'\n<trans-unit id="{n}"><source>{html.escape(text[:9])}<g id="1">{html.escape(text[9:])}</g></source>'
        "</trans-unit>"
        for n, text in enumerate(texts)
    )
    return f'<xliff version="1.2"><file source-language="en"><body>{units}\n</body></file></xliff>'.encode()


def tmx(texts: list[str]) -> bytes:
    units = "".join(
        f'<tu>\n <tuv xml:lang="en"><seg>{html.escape(text)}<ph>&lt;br&gt;</ph> end</seg></tuv>\n</tu>'
        for text in texts
    )
    return f"<?xml version='1.0'?>\n<tmx version='1.4'><body>{units}</body></tmx>".encode("utf-16")


def srt(texts: list[str]) -> bytes:
    cues = (
        f"{n}\r\n00:00:{n:02},000 --> 00:00:{n:02},900\r\n"
        f"<i>{' '.join(text.split()[:6])}</i>\r\nand {text.split()[0]}\r\n"
        for n, text in enumerate((text.replace("<", "") for text in texts if text.strip()), 1)
    )
    return "\r\n".join(cues).encode("utf-8-sig")


def vtt(texts: list[str]) -> bytes:
    cues = (f"00:{n:02}.000 --> 00:{n:02}.900\n<v A>{html.escape(text)}\n" for n, text in enumerate(texts))
    return "\n".join(["WEBVTT\n", *cues]).encode()


def docx(texts: list[str]) -> bytes:
    paragraphs = "".join(
        f'<w:p><w:r><w:t xml:space="preserve">{html.escape(first)} </w:t></w:r><w:r><w:rPr><w:b/></w:rPr>'
        f"<w:t>{html.escape(second)} bold</w:t></w:r></w:p>"
        for first, _, second in (text.partition(" ") for text in texts)
    )
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("word/document.xml", f'<w:document xmlns:w="{_WORDS}">{paragraphs}</w:document>')
    return content.getvalue()


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.found: Counter[Any] = Counter()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found[tag, *attrs] += 1

    def handle_endtag(self, tag: str) -> None:
        self.found["/", tag] += 1

    def handle_comment(self, data: str) -> None:
        self.found["comment", data] += 1


def tags_of(content: bytes) -> Any:
    parser = _Tags()
    parser.feed(content.decode("latin-1"))
    return parser.found


def blocks_of(content: bytes) -> Any:
    """Blocks of a page of Markdown in order, and the addresses and the code in it."""
    tokens = MarkdownIt("commonmark").enable("table").parse(content.decode("utf-8", "replace"))
    inner = [child for token in tokens for child in token.children or ()]
    kept = Counter(str(one.attrs) for one in inner if one.type in ("link_open", "image"))
    kept += Counter(one.content for one in [*inner, *tokens] if one.type in ("code_inline", "fence", "code_block"))
    return [token.type for token in tokens if token.type != "html_block"], kept


def elements_of(content: bytes) -> Any:
    root = lxml.etree.fromstring(content)
    new = {"target"} | ({"tuv", "seg", "ph"} if root.tag == "tmx" else {"g"})
    return Counter((str(one.tag), *sorted(one.attrib.items())) for one in root.iter() if one.tag not in new)


def entries_of(content: bytes) -> Any:
    """Everything of a PO file but the translations, if msgfmt accepts it."""
    subprocess.run(["msgfmt", "-o", os.devnull, "-"], input=content, check=True, capture_output=True)
    return re.sub(
        rb'^(msgstr(?:\[\d\])? )"(.*)"((?:\n".*")*)', rb"\1", content.partition(b"\n\n")[2], flags=re.MULTILINE
    )


def paragraphs_of(content: bytes) -> Any:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        root = lxml.etree.fromstring(archive.read("word/document.xml"))
        bold = [one.find(f".//{{{_WORDS}}}b") is None for one in root.iter(f"{{{_WORDS}}}p")]
        return archive.namelist(), bold


def times_of(content: bytes) -> Any:
    text = content.decode("utf-8-sig")
    return _TIME.findall(text), Counter(re.findall(r"<[^<>]+>", text))


CHECKS: dict[str, Callable[[bytes], Any]] = {
    "html": tags_of,
    "md": blocks_of,
    "po": entries_of,
    "xlf": elements_of,
    "tmx": elements_of,
    "srt": times_of,
    "vtt": times_of,
    "docx": paragraphs_of,
}


def comes_back(content: bytes, form: str) -> tuple[int, bool]:
    """Return the number of segments, and whether the document is the same with its own text as the translation."""
    document = open_document(content, form, "a", ALL)
    in_place = form not in ("po", "xliff", "tmx")
    own = [Translated(one.text) if in_place and not one.fault else None for one in document.segments]
    return len(document.segments), document.splice(own).content == content


def scrambled(content: bytes, form: str, draw: random.Random) -> bytes:
    """Return a document whose translations have the words of the source in any order, with links to the source."""
    document = open_document(content, form, "a", ALL)
    translations: list[Translated | None] = []
    for segment in document.segments:
        words = list(enumerate(segment.text.split()))
        draw.shuffle(words)
        links = [(source, target) for target, (source, _) in enumerate(words)]
        translations.append(None if segment.fault else Translated(" ".join(word for _, word in words), links))
    return document.splice(translations).content


def same(check: Callable[[bytes], Any], before: bytes, after: bytes) -> bool:
    try:
        return bool(check(before) == check(after))
    except (lxml.etree.Error, subprocess.CalledProcessError, zipfile.BadZipFile, ValueError) as error:
        print(f"  {error}", file=sys.stderr)
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="", help="folder of an exported model that translates from English")
    parser.add_argument(
        "--roots", type=Path, nargs="+", default=[Path("/usr/share"), Path("/usr/lib"), Path(sys.prefix)]
    )
    parser.add_argument("--bytes", type=int, default=30_000, help="size of the largest document")
    parser.add_argument("--keep", type=Path, help="folder for the documents and their translations")
    options = parser.parse_args()
    draw = random.Random(1)
    real = list(found(options.roots, options.bytes, draw))
    messages = [
        match for suffix, one in real if suffix == "po" for match in _MESSAGE.findall(one.decode("utf-8", "replace"))
    ]
    documents = [*real, *written(messages, draw)]
    counts: dict[str, Counter[str]] = {suffix: Counter() for suffix in WANTED}
    with tempfile.TemporaryDirectory() as made:
        folder = options.keep or Path(made)
        (folder / "in").mkdir(parents=True)
        for number, (suffix, content) in enumerate(documents):
            name = f"{number:04d}.{suffix}"
            try:
                segments, is_same = comes_back(content, format_by_name(name))
            except NmtError as error:
                counts[suffix]["refused"] += 1
                print(f"  {name}: {error}", file=sys.stderr)
                continue
            counts[suffix].update(documents=1, segments=segments, same=is_same)
            (folder / "in" / name).write_bytes(content)
        if options.model:
            translate(folder, options.model)
        for file in sorted((folder / "in").iterdir()):
            suffix, content = file.suffix[1:], file.read_bytes()
            own = scrambled(content, format_by_name(file.name), draw) if not options.model else None
            is_valid = same(CHECKS[suffix], content, own or (folder / "out" / file.name).read_bytes())
            counts[suffix]["valid"] += is_valid
            if not is_valid:
                print(f"  {file.name}: differs in more than its text", file=sys.stderr)
    columns = ("documents", "refused", "segments", "same", "valid")
    print("| Format | Documents | Refused | Segments | Come back | Valid when translated |\n|---|---|---|---|---|---|")
    for suffix, own in [*counts.items(), ("all", sum(counts.values(), Counter()))]:
        print(f"| {suffix} | " + " | ".join(f"{own[column]:,}" for column in columns) + " |")
    total = sum(counts.values(), Counter[str]())
    return int(min(total["same"], total["valid"]) < total["documents"])


def translate(folder: Path, model: str) -> None:
    start = time.monotonic()
    command = [Path(sys.executable).parent / "nmt", "translate", "--model", model, "--beam", "1", "--redo", "all"]
    home = {"NMT_HOME": str(folder / "home")}
    places = ["--input", str(folder / "in"), "--output", str(folder / "out")]
    subprocess.run([*command, *places], check=True, env=os.environ | home)
    print(f"translated in {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
