"""List the scripts in which each language is written, as its messages and the Declaration of Human Rights are."""

_LATIN, _CYRILLIC, _ARABIC = r"\p{Latin}", r"\p{Cyrillic}", r"\p{Arabic}"

_SCRIPTS = {
    _LATIN: "aa ace af ak als an ast ay ban bcl bi br ca ceb ch co cs csb cy da de dsb ee en eo es et eu ext fi fil "
    "fj fo fr frp fur fy ga gd gl gn gsw gv ha haw hr hsb ht hu ia id ie ig ilo io is it jam jbo kab kg ki kl kw la lb "
    "lg li lij lmo ln lt ltg lv mg mh mi min mt mwl na nap nb nds ng nl nn no nr nso nv ny oc om pam pap pcm pl pms pt "
    "qu rm rn ro rup rw sc scn sco se sg sk sl sm sn so sq ss st su sv sw szl tet tl tn to tpi ts tw ty ve vec vep vi "
    "vo wa war wo xh yo zam zu",
    _CYRILLIC: "ab ba bg bua ce cv kbd koi krc kv ky lez mhr mk mrj os ru rue sah tyv udm uk",
    _ARABIC: "ar ary arz azb bal ckb fa glk mzn pnb ps skr ur",
    # Languages of two scripts may be in either.
    _LATIN + _CYRILLIC: "be bs cnr crh sr tk tt uz",
    _LATIN + _CYRILLIC + _ARABIC: "az kk ku",
    _LATIN + _ARABIC: "ms",
    _LATIN + r"\p{Javanese}": "jv",
    _CYRILLIC + r"\p{Mongolian}": "mn",
    _CYRILLIC + _ARABIC: "tg",
    _CYRILLIC + _LATIN + _ARABIC: "ug",
    _ARABIC + r"\p{Devanagari}": "ks sd",
    r"\p{Devanagari}": "awa bh bho brx doi gom hi hne mag mai mr ne new sa",
    r"\p{Hangul}": "ko",
    r"\p{Hiragana}\p{Katakana}\p{Han}ーｰ": "ja",
    r"\p{Han}\p{Bopomofo}": "gan hak hsn lzh nan wuu yue zh",
    r"\p{Greek}": "el",
    r"\p{Hebrew}": "he yi",
    r"\p{Armenian}": "hy",
    r"\p{Georgian}": "ka",
    r"\p{Ethiopic}": "am ti",
    r"\p{Bengali}": "as bn",
    r"\p{Bengali}\p{Meetei_Mayek}": "mni",
    r"\p{Gujarati}": "gu",
    r"\p{Gurmukhi}\p{Arabic}": "pa",
    r"\p{Oriya}": "or",
    r"\p{Ol_Chiki}\p{Devanagari}\p{Bengali}": "sat",
    r"\p{Tamil}": "ta",
    r"\p{Telugu}": "te",
    r"\p{Kannada}": "kn",
    r"\p{Malayalam}": "ml",
    r"\p{Sinhala}": "si",
    r"\p{Thaana}": "dv",
    r"\p{Thai}": "th",
    r"\p{Lao}": "lo",
    r"\p{Khmer}": "km",
    r"\p{Myanmar}": "mnw my shn",
    r"\p{Tibetan}": "bo dz",
    r"\p{Tifinagh}\p{Latin}": "ber zgh",
    r"\p{Cherokee}": "chr",
    r"\p{Yi}": "ii",
    r"\p{Canadian_Aboriginal}\p{Latin}": "cr iu oj",
}
# By ISO 15924 code, for a recipe that names a script.
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
    "Jpan": r"\p{Hiragana}\p{Katakana}\p{Han}ーｰ",
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
SCRIPT_OF_LANGUAGE = {language: script for script, languages in _SCRIPTS.items() for language in languages.split()}
"""Characters of a language's scripts, as the inside of a character class of a regular expression, by ISO 639 code.

All scripts of a language that has several count as its own. Languages that are not listed are not checked.
"""


def letters_of(language: str, script: str) -> str | None:
    """Return the characters of the script that a recipe names (ISO 15924), or else of the language's scripts.

    They are the inside of a character class. None means that the script is not checked.
    """
    return _BY_CODE.get(script) if script else SCRIPT_OF_LANGUAGE.get(language)
