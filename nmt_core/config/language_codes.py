"""Language codes and tags. This package names each language by its shortest ISO 639 code.

`de`, `deu`, `ger`, `DE-at` and `de_CH` are all German. A tag may add a script and a region: `zh-Hant-TW`, `sr_Latn`,
`pt_BR`, `zho_Hans` (FLORES), `sr@latin` (POSIX). Both the configuration and the readers of files use this module.
"""

import functools
import re
from typing import NamedTuple

# ISO 639-1, then ISO 639-3, and the bibliographic code of ISO 639-2 where it differs.
_CODES = """
aa aar|ab abk|ae ave|af afr|ak aka|am amh|an arg|ar ara arb|as asm|av ava|ay aym|az aze|ba bak|be bel|bg bul|bi bis
bm bam|bn ben|bo bod tib|br bre|bs bos|ca cat|ce che|ch cha|co cos|cr cre|cs ces cze|cu chu|cv chv|cy cym wel|da dan
de deu ger|dv div|dz dzo|ee ewe|el ell gre|en eng|eo epo|es spa|et est|eu eus baq|fa fas per pes|ff ful|fi fin|fj fij
fo fao|fr fra fre|fy fry|ga gle|gd gla|gl glg|gn grn|gu guj|gv glv|ha hau|he heb iw|hi hin|ho hmo|hr hrv|ht hat|hu hun
hy hye arm|hz her|ia ina|id ind|ie ile|ig ibo|ii iii|ik ipk|io ido|is isl ice|it ita|iu iku|ja jpn|jv jav|ka kat geo
kg kon|ki kik|kj kua|kk kaz|kl kal|km khm|kn kan|ko kor|kr kau|ks kas|ku kur|kv kom|kw cor|ky kir|la lat|lb ltz|lg lug
li lim|ln lin|lo lao|lt lit|lu lub|lv lav lvs|mg mlg|mh mah|mi mri mao|mk mkd mac|ml mal|mn mon|mr mar|ms msa may zsm
mt mlt|my mya bur|na nau|nb nob|nd nde|ne nep npi|ng ndo|nl nld dut|nn nno|no nor|nr nbl|nv nav|ny nya|oc oci|oj oji
om orm|or ori ory|os oss|pa pan|pi pli|pl pol|ps pus|pt por|qu que|rm roh|rn run|ro ron rum|ru rus|rw kin|sa san|sc srd
sd snd|se sme|sg sag|si sin|sk slk slo|sl slv|sm smo|sn sna|so som|sq sqi alb|sr srp|ss ssw|st sot|su sun|sv swe
sw swa swh|ta tam|te tel|tg tgk|th tha|ti tir|tk tuk|tl tgl|tn tsn|to ton|tr tur|ts tso|tt tat|tw twi|ty tah|ug uig
uk ukr|ur urd|uz uzb uzn|ve ven|vi vie|vo vol|wa wln|wo wol|xh xho|yi yid|yo yor|za zha|zh zho chi cmn|zu zul
"""
_TWO_LETTERS = {code: codes.split()[0] for codes in re.split(r"[|\n]", _CODES.strip()) for code in codes.split()}

# Codes that ISO has withdrawn, and tags from before BCP 47, as Java and old programs write them. They are apart from
# the other codes, because `is_code` must not take the names `in` and `mo` of columns for languages.
_FORMER_TAGS = """
in id|ji yi|jw jv|mo ro|mol ro|scc sr|scr hr|hbs sh|bih bh|zh-min-nan nan|zh-min nan|zh-guoyu zh|zh-hakka hak
zh-xiang hsn|no-bok nb|no-nyn nn|i-lux lb|i-hak hak|i-navajo nv
"""
_FORMER = dict(line.split() for line in re.split(r"[|\n]", _FORMER_TAGS.strip()))

# Macro-languages of ISO 639-3 (and the former `sh`), each with the members whose text is often published under its
# code, or the reverse. Chinese and Arabic are left out: their other members are written differently.
_MACRO = """
no nb nn|tl fil|sh bs hr sr cnr|az azj azb|uz uzs|sq als aln|mn khk|ku kmr ckb|et ekk vro|lv ltg|qu quy quz|ay ayr
gn gug|mg plt|om gaz|ps pbt pbu
yi ydd|ff fuv fuf|fa prs|ms zlm|sc sro src|iu ike|kv kpv koi|kg kng|ak tw fat|bik bcl|lah pnb
kok gom knn|zza diq kiu|hmn mww|cr crk|oj ojb|ar arb|zh cmn
"""
_MEMBERS = {
    group.split()[0]: frozenset(group.split()[1:]) for group in re.split(r"[|\n]", _MACRO.strip()) if group.strip()
}

_TAG = re.compile(
    r"(?P<language>[A-Za-z]{2,3})(?:[-_](?P<extension>[A-Za-z]{3}))?(?:[-_](?P<script>[A-Za-z]{4}))?"
    r"(?:[-_](?P<region>[A-Za-z]{2}|[0-9]{3}))?(?P<rest>(?:[-_.@][A-Za-z0-9-]{1,12})*)"
)
_EXTENDED = frozenset({"zh", "ar", "ms"})  # a member may follow the macro-language: zh-yue, zh-cmn-Hans
_MODIFIERS = {"@latin": "Latn", "@cyrillic": "Cyrl", "@devanagari": "Deva", "@arabic": "Arab"}
_SCRIPTS_OF_REGIONS = {
    "zh": {"TW": "Hant", "HK": "Hant", "MO": "Hant", "CN": "Hans", "SG": "Hans", "MY": "Hans"},
    "pa": {"PK": "Arab", "IN": "Guru"},
    "sr": {"ME": "Latn"},
    "az": {"IR": "Arab"},
    "uz": {"AF": "Arab"},
    "kk": {"CN": "Arab"},
    "mn": {"CN": "Mong"},
}

_MACRO_FIT, _FIT = 4, 8


class Tag(NamedTuple):
    """A language with the script and the region that its tag names. Empty means that the tag names none."""

    language: str
    """Shortest ISO 639 code."""
    script: str = ""
    """ISO 15924 code, such as Latn."""
    region: str = ""
    """ISO 3166 code, such as BR, or a number of UN M49."""

    @property
    def known_script(self) -> str:
        """Script that the tag names, or else the one that its region implies."""
        return self.script or _SCRIPTS_OF_REGIONS.get(self.language, {}).get(self.region, "")

    @property
    def variant(self) -> str:
        """Script and region as a recipe spells them: `Hant`, `BR` or `Hant_TW`."""
        return "_".join(filter(None, (self.script, self.region)))

    def __str__(self) -> str:
        return "_".join(filter(None, self))


@functools.lru_cache(maxsize=4096)
def parse_tag(text: str) -> Tag | None:
    """Return the parts of a language tag, or None if the text is not one."""
    text = text.strip()
    if whole := _FORMER.get(text.casefold().replace("_", "-")):
        return Tag(whole)
    match = _TAG.fullmatch(text)
    if not match:
        return None
    language, extension = match["language"].casefold(), (match["extension"] or "").casefold()
    language = _TWO_LETTERS.get(language) or _FORMER.get(language, language)
    if extension and language in _EXTENDED:
        language = _TWO_LETTERS.get(extension, extension)
    script = (match["script"] or "").title()
    modifier = next((name for sign, name in _MODIFIERS.items() if sign in match["rest"].casefold()), "")
    return Tag(language, script or modifier, (match["region"] or "").upper())


def is_code(text: str) -> bool:
    """Return True if a text is the code of a language with a code of two letters, and nothing else."""
    return text.casefold() in _TWO_LETTERS


def canonical(tag: str) -> str:
    """Return the shortest code of a tag's language, without region and script: `zh` for `zho-Hans-CN`.

    Text that is not a tag is returned unchanged.
    """
    parsed = parse_tag(tag)
    return parsed.language if parsed else tag


@functools.lru_cache(maxsize=4096)
def fit(tag: str, expected_tag: str) -> int:
    """Return how well the tag of a text fits the language that is wanted. 0 means that it does not fit.

    The language must be the same, or one of the two the macro-language of the other: text in `no` fits `nb`. Scripts
    and regions must not contradict each other: `pt` fits `pt_BR`, and `pt_PT` does not. Text in `zh_TW` is in `Hant`.
    A higher number means that more parts agree.
    """
    parsed, expected = parse_tag(tag), parse_tag(expected_tag)
    if not parsed or not expected:
        return _FIT if tag == expected_tag else 0
    if parsed.language == expected.language:
        rank = _FIT
    elif parsed.language in _MEMBERS.get(expected.language, ()) or expected.language in _MEMBERS.get(
        parsed.language, ()
    ):
        rank = _MACRO_FIT
    else:
        return 0
    scripts, regions = (parsed.known_script, expected.known_script), (parsed.region, expected.region)
    if any(all(pair) and pair[0] != pair[1] for pair in (scripts, regions)):
        return 0
    return (
        rank
        + 2 * (bool(expected.known_script) and scripts[0] == scripts[1])
        + (bool(expected.region) and regions[0] == regions[1])
    )
