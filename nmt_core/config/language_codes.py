"""Language codes. This package names each language by its shortest ISO 639 code.

`de`, `deu`, `ger`, `DE-at` and `de_CH` are all German. Both the configuration and the readers of files use this module.
"""

import re

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
_TAG = re.compile(r"([A-Za-z]{2,3})(?:[-_@.][A-Za-z0-9-]{1,12})*")


def canonical(tag: str) -> str:
    """Return the shortest code of a tag's language, without region and script: `zh` for `zho-Hans-CN`.

    Text that is not a tag is returned unchanged.
    """
    primary = match[1].casefold() if (match := _TAG.fullmatch(tag.strip())) else tag
    return _TWO_LETTERS.get(primary, primary)
