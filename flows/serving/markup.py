"""HTML whose text is translated and of which everything else stays as it is, byte for byte."""

import html
from collections.abc import Iterator
from html.parser import HTMLParser

_NOT_TRANSLATED = frozenset({"script", "style", "code", "pre", "kbd", "samp", "textarea", "template", "svg", "math"})
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)


class Markup:
    """A piece of HTML, in parts: text to translate, and what stays between.

    Text between two tags is one text. Text of scripts, styles and code stays, and so does everything in an element with
    `translate="no"` or the class `notranslate`.

    Args:
        markup: HTML, whole or a fragment, well formed or not.
    """

    def __init__(self, markup: str) -> None:
        self._parts: list[str] = []
        """Text at odd places, and what stays at even ones."""
        self.texts: list[str] = []
        """Texts to translate, without white space at their ends, and without entities."""
        at = 0
        for start, end in _TextPlaces(markup).found:
            inner = markup[start:end]
            start += len(inner) - len(inner.lstrip())
            end -= len(inner) - len(inner.rstrip())
            self._parts += [markup[at:start], markup[start:end]]
            self.texts.append(html.unescape(markup[start:end]))
            at = end
        self._parts.append(markup[at:])

    def filled(self, translations: Iterator[str]) -> str:
        """Return the HTML with a translation in place of each text, taken from an iterator in order."""
        parts = self._parts.copy()
        for place in range(1, len(parts), 2):
            parts[place] = html.escape(next(translations), quote=False)
        return "".join(parts)


class _TextPlaces(HTMLParser):
    """Places of text that is to be translated: pairs of the first character and the one after the last."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=False)
        self.found: list[tuple[int, int]] = []
        self._kept: list[str] = []  # open elements, from the first whose text stays
        self._lines = [0]
        for line in markup.split("\n"):
            self._lines.append(self._lines[-1] + len(line) + 1)
        self._markup = markup
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the beginning of an element whose text stays."""
        if tag in _VOID:
            return
        values = dict(attrs)
        stays = values.get("translate") == "no" or "notranslate" in (values.get("class") or "").split()
        if self._kept or stays or tag in _NOT_TRANSLATED:
            self._kept.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Pass over an element without content."""

    def handle_endtag(self, tag: str) -> None:
        """Note the end of an element whose text stays, and of those in it that were left open."""
        if tag in self._kept:
            while self._kept.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        """Note the place of text."""
        self._add(len(data))

    def handle_entityref(self, name: str) -> None:
        """Note the place of a character that is written by its name."""
        self._add(1 + len(name) + self._has_semicolon(1 + len(name)))

    def handle_charref(self, name: str) -> None:
        """Note the place of a character that is written by its number."""
        self._add(2 + len(name) + self._has_semicolon(2 + len(name)))

    def _offset(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column

    def _has_semicolon(self, length: int) -> bool:
        return self._markup.startswith(";", self._offset() + length)

    def _add(self, length: int) -> None:
        start = self._offset()
        if self._kept:
            return
        if self.found and self.found[-1][1] == start:
            self.found[-1] = (self.found[-1][0], start + length)
        elif self._markup[start : start + length].strip():
            self.found.append((start, start + length))
