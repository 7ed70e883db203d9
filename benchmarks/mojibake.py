"""Repair of mojibake, on the messages of this machine's translated programs: what is recovered, and what is harmed.

    .venv/bin/python benchmarks/mojibake.py [--folder /usr/share/locale] [--messages 2000]

Each message of each language is damaged in eight ways: its UTF-8 is read as one of five tables, or as Windows-1252
twice, or the C1 controls of Windows-1252 take the place of its quotes and dashes, or it stays as it is. A message
counts as recovered if it comes back to the letter, and as harmed if it was sound and changed. ftfy is the measure.
"""

import argparse
import gettext
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import ftfy

from nmt_core.text.mojibake import repair

TABLES = ("cp1252", "latin-1", "cp1250", "iso8859-2", "cp1251")
_C1 = {bytes([number]).decode("cp1252"): chr(number) for number in (*range(0x82, 0x8B), *range(0x91, 0x9C))}
Repair = Callable[[str], str]


def main() -> None:
    """Print one row for each kind of damage, and the languages with sound messages that changed."""
    parser = argparse.ArgumentParser(description="Repair of mojibake: recovered and harmed messages, against ftfy.")
    parser.add_argument("--folder", type=Path, default=Path("/usr/share/locale"), help="folder of the .mo files")
    parser.add_argument("--messages", type=int, default=2_000, help="messages of each language (2,000)")
    arguments = parser.parse_args()
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    repairs: dict[str, Repair] = {"ours": repair, "ftfy": ftfy.fix_encoding}
    for language, messages in _messages(arguments.folder, arguments.messages):
        for damage, (text, damaged) in _damaged(messages):
            for name, function in repairs.items():
                outcome = function(damaged)
                counts[damage, name]["all"] += 1
                counts[damage, name]["right"] += outcome == text
                if damage == "none" and outcome != text:
                    counts["harmed", name][language] += 1
    print("| damage | messages | recovered by ours | by ftfy |\n| --- | --- | --- | --- |")
    for damage in dict.fromkeys(damage for damage, _ in counts if damage != "harmed"):
        rows = [counts[damage, name] for name in repairs]
        shares = " | ".join(f"{row['right'] / row['all']:.2%}" for row in rows)
        print(f"| {damage} | {rows[0]['all']:,} | {shares} |")
    for name in repairs:
        print(f"sound messages changed by {name}: {dict(counts['harmed', name].most_common())}")


def _messages(folder: Path, most: int) -> Iterator[tuple[str, list[str]]]:
    """Yield the messages of each language that are not all ASCII."""
    for language in sorted(path.name for path in folder.iterdir() if path.is_dir()):
        texts: dict[str, None] = {}
        for file in sorted((folder / language).glob("LC_MESSAGES/*.mo")):
            try:
                with file.open("rb") as stream:
                    catalog = gettext.GNUTranslations(stream)._catalog  # type: ignore[attr-defined]
            except (OSError, UnicodeDecodeError, ValueError, IndexError):
                continue
            for text in catalog.values():
                line = unicodedata.normalize("NFC", " ".join(str(text).split()))
                if line and not line.isascii() and not any("\x80" <= character <= "\x9f" for character in line):
                    texts[line] = None
        if texts:
            yield language, list(texts)[:: max(1, len(texts) // most)][:most]


def _damaged(messages: Iterable[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    for text in messages:
        yield "none", (text, text)
        for table in TABLES:
            yield f"UTF-8 as {table}", (text, _misread(text, table))
        yield "UTF-8 as cp1252 twice", (text, _misread(_misread(text, "cp1252"), "cp1252"))
        if any(character in _C1 for character in text):
            yield "C1 controls", (text, "".join(_C1.get(character, character) for character in text))


def _misread(text: str, table: str) -> str:
    return "".join(bytes([byte]).decode(table, "ignore") or chr(byte) for byte in text.encode())


if __name__ == "__main__":
    main()
