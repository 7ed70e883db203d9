"""List the scripts in which each language is written."""

_SCRIPTS = {
    r"\p{Latin}": "af ca cs cy da de en eo es et eu fi fil fr ga gl hr ht hu id is it la lb lt lv ms mt nb nl nn no "
    "pl pt ro sk sl so sq sv sw tl tr vi xh yo zu",
    r"\p{Cyrillic}": "be bg ky mk ru tg uk",
    r"\p{Arabic}": "ar fa ps sd ug ur",
    r"\p{Devanagari}": "hi mr ne sa",
    r"\p{Hangul}": "ko",
    r"\p{Hiragana}\p{Katakana}\p{Han}ー": "ja",
    r"\p{Han}\p{Bopomofo}": "yue zh",
    r"\p{Greek}": "el",
    r"\p{Hebrew}": "he yi",
    r"\p{Armenian}": "hy",
    r"\p{Georgian}": "ka",
    r"\p{Ethiopic}": "am ti",
    r"\p{Bengali}": "as bn",
    r"\p{Gujarati}": "gu",
    r"\p{Tamil}": "ta",
    r"\p{Telugu}": "te",
    r"\p{Kannada}": "kn",
    r"\p{Malayalam}": "ml",
    r"\p{Sinhala}": "si",
    r"\p{Thai}": "th",
    r"\p{Lao}": "lo",
    r"\p{Khmer}": "km",
    r"\p{Myanmar}": "my",
    r"\p{Tibetan}": "bo",
}
# Languages that are written in several scripts, usually in one of them within a corpus.
_SEVERAL_SCRIPTS = {
    r"\p{Latin}\p{Cyrillic}": "bs sh sr tt",
    r"\p{Latin}\p{Cyrillic}\p{Arabic}": "az kk uz",
    r"\p{Latin}\p{Arabic}": "ku",
    r"\p{Gurmukhi}\p{Arabic}": "pa",
    r"\p{Cyrillic}\p{Mongolian}": "mn",
}
_BY_CODE = {
    "Arab": r"\p{Arabic}",
    "Armn": r"\p{Armenian}",
    "Beng": r"\p{Bengali}",
    "Cyrl": r"\p{Cyrillic}",
    "Deva": r"\p{Devanagari}",
    "Ethi": r"\p{Ethiopic}",
    "Geor": r"\p{Georgian}",
    "Grek": r"\p{Greek}",
    "Gujr": r"\p{Gujarati}",
    "Guru": r"\p{Gurmukhi}",
    "Hang": r"\p{Hangul}",
    "Hani": r"\p{Han}\p{Bopomofo}",
    "Hans": r"\p{Han}\p{Bopomofo}",
    "Hant": r"\p{Han}\p{Bopomofo}",
    "Hebr": r"\p{Hebrew}",
    "Jpan": r"\p{Hiragana}\p{Katakana}\p{Han}ー",
    "Khmr": r"\p{Khmer}",
    "Knda": r"\p{Kannada}",
    "Kore": r"\p{Hangul}\p{Han}",
    "Laoo": r"\p{Lao}",
    "Latn": r"\p{Latin}",
    "Mlym": r"\p{Malayalam}",
    "Mong": r"\p{Mongolian}",
    "Mymr": r"\p{Myanmar}",
    "Orya": r"\p{Oriya}",
    "Sinh": r"\p{Sinhala}",
    "Taml": r"\p{Tamil}",
    "Telu": r"\p{Telugu}",
    "Tfng": r"\p{Tifinagh}",
    "Thaa": r"\p{Thaana}",
    "Thai": r"\p{Thai}",
    "Tibt": r"\p{Tibetan}",
}
SCRIPT_OF_LANGUAGE = {
    language: script for script, languages in (_SCRIPTS | _SEVERAL_SCRIPTS).items() for language in languages.split()
}
"""Characters of a language's scripts, as the inside of a character class of a regular expression, by ISO 639 code.

All scripts of a language that has several count as its own. Languages that are not listed are not checked.
"""


def letters_of(language: str, script: str) -> str | None:
    """Return the characters of the script that a recipe names (ISO 15924), or else of the language's scripts.

    They are the inside of a character class. None means that the script is not checked.
    """
    return _BY_CODE.get(script) if script else SCRIPT_OF_LANGUAGE.get(language)
