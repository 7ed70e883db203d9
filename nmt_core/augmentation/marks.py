"""Put the same emoji, numbers, placeholders and tags into both sides of a pair: a translation must keep them."""

import re

from nmt_core.augmentation.draw import Draw, Pair
from nmt_core.text.inline import INLINE

EMOJI = (
    *"😀😂😊😍😉😢😭😡😱🤔🙄🙏👍👎👏💪🎉🎂🎁🔥✨⭐✅❌💔💯🚀🐶🐱🌞🍕☕⚽🏆📷📞💡🔒🛒🚗🏠",
    *("⚠️", "❤️", "🌧️", "✈️", "➡️", "©️", "™️", "1️⃣", "👍🏽", "🇩🇪", "🇰🇷", "🇫🇷", "🇺🇸"),
    *("👨\u200d👩\u200d👧", "👩\u200d💻", "🤷\u200d♂️", "🙋🏿\u200d♀️", "🏳️\u200d🌈"),
)
"""Emoji of one code point and of several."""
_PLACEHOLDERS = ("%s", "%d", "%1$s", "%2$d", "%(name)s", "{}", "{0}", "{1}", "{name}", "{count}", "${path}", "%1")
_TAGS = (
    ("<b>", "</b>"),
    ("<i>", "</i>"),
    ("<em>", "</em>"),
    ("<strong>", "</strong>"),
    ('<a href="https://example.org/">', "</a>"),
    ('<span class="note">', "</span>"),
    ('<g id="1">', "</g>"),
    ('<ph id="2">', "</ph>"),
)
_WORD = re.compile(r"\w+(?:[.,:]\d+)*")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_END = re.compile(r"\s*[.!?…。！？؟।]*[\s\"'’”»)\]」』]*$")
_LEAST_LETTERS = 3
"""Fewest letters of a word that counts as the same on both sides, as names do. Shorter ones are equal by chance."""


def emoji(pair: Pair, draw: Draw) -> Pair:
    """Put one to three emoji before or behind both sides."""
    added = "".join(draw.random.choices(EMOJI, k=draw.random.choice((1, 1, 1, 2, 3))))
    if draw.random.random() < 0.2:
        return f"{added} {pair[0]}", f"{added} {pair[1]}"
    return f"{pair[0]} {added}", f"{pair[1]} {added}"


def numbers(pair: Pair, draw: Draw) -> Pair:
    """Replace the digits of each number that both sides have once by others, the same on both sides."""
    for number in _shared(pair, _NUMBER):
        digits = [draw.random.choice("123456789")] if number[0] != "0" else ["0"]
        digits += [str(draw.random.randrange(10)) if digit.isdecimal() else digit for digit in number[1:]]
        pair = _replaced(pair, _NUMBER, number, "".join(digits))
    return pair


def placeholders(pair: Pair, draw: Draw) -> Pair:
    """Replace a word or number that both sides have by a placeholder, or put one before the end of both sides."""
    added, shared = draw.random.choice(_PLACEHOLDERS), _shared(pair, _WORD)
    if shared:
        return _replaced(pair, _WORD, draw.random.choice(shared), added)
    if draw.random.random() < 0.5:
        return f"{added}: {pair[0]}", f"{added}: {pair[1]}"
    source, target = (f"{text[: (end := _END.search(text).start())]} {added}{text[end:]}" for text in pair)  # type: ignore[union-attr]
    return source, target


def tags(pair: Pair, draw: Draw) -> Pair:
    """Put tags around a word or number that both sides have, or around both sides as a whole."""
    (begin, end), shared = draw.random.choice(_TAGS), _shared(pair, _WORD)
    if shared and draw.random.random() < 0.8:
        word = draw.random.choice(shared)
        return _replaced(pair, _WORD, word, f"{begin}{word}{end}")
    return f"{begin}{pair[0]}{end}", f"{begin}{pair[1]}{end}"


def _shared(pair: Pair, pattern: re.Pattern[str]) -> list[str]:
    """Return the words or numbers that both sides have exactly once, outside of placeholders, tags and addresses."""
    found = [[word[0] for word in _free(text, pattern)] for text in pair]
    return [word for word in found[0] if [side.count(word) for side in found] == [1, 1] and _is_telling(word)]


def _is_telling(word: str) -> bool:
    return word[0].isdecimal() or (word.isalpha() and len(word) >= _LEAST_LETTERS)


def _free(text: str, pattern: re.Pattern[str]) -> list[re.Match[str]]:
    kept = [match.span() for match in INLINE.finditer(text)]
    return [
        match
        for match in pattern.finditer(text)
        if all(match.end() <= begin or end <= match.start() for begin, end in kept)
    ]


def _replaced(pair: Pair, pattern: re.Pattern[str], word: str, by: str) -> Pair:
    """Replace the one occurrence of a word on each side."""
    places = [next(match.span() for match in _free(text, pattern) if match[0] == word) for text in pair]
    source, target = (text[:begin] + by + text[end:] for text, (begin, end) in zip(pair, places, strict=True))
    return source, target
