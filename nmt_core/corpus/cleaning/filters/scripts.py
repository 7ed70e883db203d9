"""List the script in which each language is written."""

_SCRIPTS = {
    r"\p{Latin}": "af az ca cs cy da de en eo es et eu fi fil fr ga gl hr ht hu id is it la lb lt lv ms mt nb nl nn no "
    "pl pt ro sk sl so sq sv sw tl tr uz vi xh yo zu",
    r"\p{Cyrillic}": "be bg kk ky mk mn ru tg tt uk",
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
    r"\p{Gurmukhi}": "pa",
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
SCRIPT_OF_LANGUAGE = {language: script for script, languages in _SCRIPTS.items() for language in languages.split()}
"""Characters of a language's script, as the inside of a character class of a regular expression, by ISO 639 code.

Languages that have several scripts (Serbian) or that are not listed are not checked.
"""
