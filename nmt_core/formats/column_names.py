"""Recognise the names that data sets give to the columns of the two sides.

A name is a sequence of words in lower case. Two columns belong together if they differ in one place only, which names
the languages (`text_en` and `text_de`) or the roles (`source_text` and `target_text`). The rest is their shape.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from nmt_core.config.language_codes import fit, is_code, parse_tag

Words = tuple[str, ...]

_NAMES = """
af afrikaans|am amharic|ar arabic|az azerbaijani|be belarusian|bg bulgarian|bn bengali|bs bosnian|ca catalan|cs czech
cy welsh|da danish|de german|el greek|en english|eo esperanto|es spanish|et estonian|eu basque|fa persian|fa farsi
fi finnish|fil filipino|fr french|ga irish|gl galician|gu gujarati|ha hausa|he hebrew|hi hindi|hr croatian|hu hungarian
hy armenian|id indonesian|ig igbo|is icelandic|it italian|ja japanese|jv javanese|ka georgian|kk kazakh|km khmer
kn kannada|ko korean|ku kurdish|ky kyrgyz|lo lao|lt lithuanian|lv latvian|mg malagasy|mi maori|mk macedonian
ml malayalam|mn mongolian|mr marathi|ms malay|mt maltese|my burmese|nb bokmal|nb bokmål|ne nepali|nl dutch|nn nynorsk
no norwegian|or odia|pa punjabi|pl polish|ps pashto|pt portuguese|ro romanian|ru russian|sd sindhi|si sinhala|sk slovak
sl slovenian|sl slovene|so somali|sq albanian|sr serbian|su sundanese|sv swedish|sw swahili|ta tamil|te telugu|tg tajik
th thai|ti tigrinya|tk turkmen|tl tagalog|tr turkish|tt tatar|ug uyghur|uk ukrainian|ur urdu|uz uzbek|vi vietnamese
xh xhosa|yi yiddish|yo yoruba|yue cantonese|zh chinese|zh mandarin|zu zulu|zh_Hans chinese simplified
zh_Hans simplified chinese|zh_Hant chinese traditional|zh_Hant traditional chinese|pt_BR brazilian portuguese
pt_BR portuguese brazil|sr_Latn serbian latin|sr_Cyrl serbian cyrillic
da dansk|de deutsch|el ελληνικά|es español|fi suomi|fr français|hu magyar|it italiano|ja 日本語|ko 한국어|nl nederlands
no norsk|pl polski|pt português|ro română|ru русский|sv svenska|tr türkçe|uk українська|zh 中文
en 영어|ja 일본어|zh 중국어
"""
_TAG_OF_NAME = {
    tuple(name.split()[1:]): name.split()[0] for line in _NAMES.strip().split("\n") for name in line.split("|")
}

# Groups of roles, the surest first. A pair of a later group counts only if no earlier group has one.
_ROLES: tuple[tuple[tuple[str, str], ...], ...] = (
    (("source", "target"), ("src", "tgt"), ("src", "trg")),
    (("source", "tgt"), ("source", "trg"), ("src", "target")),
    (("source", "translation"), ("src", "translation"), ("original", "translation"), ("original", "translated")),
    (
        ("original", "target"),
        ("source", "translated"),
        ("input", "output"),
        ("text", "translation"),
        ("원문", "번역문"),
    ),
    (("msgid", "msgstr"), ("quelle", "ziel"), ("source", "cible"), ("origen", "destino"), ("prompt", "completion")),
    (("sentence1", "sentence2"), ("text1", "text2"), ("sent1", "sent2"), ("segment1", "segment2")),
    (("col1", "col2"), ("column1", "column2"), ("l1", "l2")),
    (("1", "2"), ("a", "b")),
)
_OF_PEOPLE = tuple(
    (source, target)
    for source in ("source", "src", "original")
    for target in ("reference", "ref", "reference translation", "human translation", "pe", "postedit", "post edit")
)
"""Roles of data sets about machine translation: here `target` may be the output of a machine."""
_NOUNS = frozenset(
    ["text", "sentence", "segment", "seg", "string", "line", "content", "sent", "txt", "str", "col", "column"]
)
_NUMBERED = frozenset({"1", "2", "a", "b"})  # only behind a noun


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MACHINE = _words("mt hyp hypothesis hypotheses nmt smt machine hter mqm bleurt comet system z annotators mean")
_NO_TEXT = _words(
    "id ids idx index lang language languages lid score scores url uri domain len length count tokens token date time "
    "split label category key licence license origin provenance user author similarity quality rating type tags tag "
    "probability prob margin laser labse bicleaner doc docid document hash md5 sha256 file filename path lp corpus "
    "collection number num no"
)
_OTHER_WORDS = _words("context comment notes note name title description meta metadata from to")


class _Candidate(NamedTuple):
    column: int
    shape: Words
    rank: int


def pairs_of_columns(names: Sequence[Words], usable: Iterable[int], source: str, target: str) -> list[tuple[int, int]]:
    """Return the pairs of columns that fit best, by their index: one, several that are equally good, or none.

    Args:
        names: words of all names.
        usable: columns that may hold text.
        source: tag of the source language.
        target: tag of the target language.
    """
    columns = list(usable)
    sides = [list(_by_language(names, columns, language)) for language in (source, target)]
    return (
        _best((one, other) for one in sides[0] for other in sides[1] if one.shape == other.shape)
        or _by_roles(names, columns)
        or _best((one, other) for one in sides[0] for other in sides[1] if one.shape != other.shape)
        or _language_and_role(names, columns, sides)
    )


def columns_of_side(names: Sequence[Words], usable: Sequence[int], language: str, side: int) -> list[int]:
    """Return the columns that fit one side best. `side` is 0 for the source and 1 for the target."""
    matches = list(_by_language(names, usable, language))
    best = max((candidate.rank for candidate in matches), default=0)
    by_language = [candidate.column for candidate in matches if candidate.rank == best]
    return by_language or _of_role(names, usable, side)


def languages_named(names: Sequence[Words]) -> list[str]:
    """Return the shortest codes of the languages after which columns are named, in the order of the columns.

    Names that usually mean something else, such as `id`, name no language.
    """
    languages = []
    for name in names:
        places = [(start, end) for size in (3, 2, 1) for start, end in ((0, size), (len(name) - size, len(name)))]
        for start, end in places:
            rest = (*name[:start], *name[end:])
            if 0 <= start < end <= len(name) and _NO_TEXT.isdisjoint(name) and not is_machine(rest):
                tag = parse_tag(_TAG_OF_NAME.get(name[start:end], "_".join(name[start:end])))
                if tag and is_code(tag.language):
                    languages.append(tag.language)
                    break
    return list(dict.fromkeys(languages))


def is_known(name: Words) -> bool:
    """Return True if a name is often the name of a column, whatever it holds."""
    words = frozenset(name)
    roles = {role for group in (*_ROLES[:4], _OF_PEOPLE) for pair in group for role in pair}
    return bool(words & (_NO_TEXT | _MACHINE | _OTHER_WORDS | roles)) or name[-1:] == ("text",)


def is_usual(name: Words) -> bool:
    """Return True if a name is likely to be the name of a column: it is known, or it is a language."""
    return is_known(name) or name in _TAG_OF_NAME or is_code("_".join(name))


def is_machine(name: Words) -> bool:
    """Return True if a name belongs to data about the output of machine translation."""
    return not _MACHINE.isdisjoint(name)


def _best(pairs: Iterable[tuple[_Candidate, _Candidate]]) -> list[tuple[int, int]]:
    ranked = [(one.rank + other.rank, (one.column, other.column)) for one, other in pairs if one.column != other.column]
    best = max((rank for rank, _ in ranked), default=0)
    return list(dict.fromkeys(columns for rank, columns in ranked if rank == best))


def _by_language(names: Sequence[Words], usable: Iterable[int], language: str) -> Iterator[_Candidate]:
    """Yield the columns that are named after a language. A name that is nothing else ranks above the others."""
    for column in usable:
        name = names[column]
        places = [(start, end) for size in (3, 2, 1) for start, end in ((0, size), (len(name) - size, len(name)))]
        for start, end in places:
            if not 0 <= start < end <= len(name):
                continue
            rank = _fit_of(name[start:end], language)
            rest = (*name[:start], *name[end:])
            if rank and _NO_TEXT.isdisjoint(rest) and not is_machine(rest):
                yield _Candidate(column, (*name[:start], "*", *name[end:]), 4 * rank + (3 - min(len(rest), 3)))
                break


def _fit_of(words: Words, language: str) -> int:
    if words == ("non", "english"):
        return 0 if fit("en", language) else 1
    if not _NO_TEXT.isdisjoint(words[1:]):  # `en_id` holds numbers, not the English of Indonesia
        return 0
    tag = _TAG_OF_NAME.get(words)
    if tag is None and len(words) > 1 and not all(len(word) in (2, 3, 4) for word in words):
        return 0
    rank = fit(tag or "_".join(words), language)
    # Of `pt` and `pt_BR`, the one that says no more than the recipe fits best.
    return 2 * rank + (len(words) == 1) if rank else 0


def _by_roles(names: Sequence[Words], columns: Sequence[int]) -> list[tuple[int, int]]:
    """Return the pairs of columns that are named after their roles, preferably in names of the same shape."""
    return _by_roles_of(names, columns, same_shape=True) or _by_roles_of(names, columns, same_shape=False)


def _by_roles_of(names: Sequence[Words], columns: Sequence[int], *, same_shape: bool) -> list[tuple[int, int]]:
    of_people = _paired(names, columns, _OF_PEOPLE, same_shape)
    if any(is_machine(name) for name in names):
        return of_people
    groups = [pairs for group in _ROLES if (pairs := _paired(names, columns, group, same_shape))]
    return of_people + groups[0] if of_people and groups and groups[0] else of_people or (groups or [[]])[0]


def _paired(
    names: Sequence[Words], columns: Sequence[int], roles: Iterable[tuple[str, str]], same_shape: bool
) -> list[tuple[int, int]]:
    pairs = []
    for source, target in roles:
        for one in columns:
            for shape in _shapes(names[one], source):
                for other in columns:
                    shapes = _shapes(names[other], target)
                    if other != one and (shape in shapes if same_shape else shapes):
                        pairs.append((one, other))
    return list(dict.fromkeys(pairs))


def _shapes(name: Words, role: str) -> list[Words]:
    """Return the shape of a name that holds this role and nothing else but nouns, or nothing."""
    role_words = tuple(role.split())
    for start in range(len(name) - len(role_words) + 1):
        rest = (*name[:start], *name[start + len(role_words) :])
        if name[start : start + len(role_words)] != role_words or not _NOUNS.issuperset(rest):
            continue
        if role not in _NUMBERED or rest:
            return [(*name[:start], "*", *name[start + len(role_words) :])]
    return []


def _of_role(names: Sequence[Words], columns: Sequence[int], side: int) -> list[int]:
    """Return the columns of the first group of roles that has one for this side."""
    groups = (_OF_PEOPLE,) if any(is_machine(name) for name in names) else (*_ROLES[:4], _OF_PEOPLE)
    for group in groups:
        roles = dict.fromkeys(pair[side] for pair in group)
        if matching := [column for column in columns if any(_shapes(names[column], role) for role in roles)]:
            return matching
    return []


def _language_and_role(
    names: Sequence[Words], columns: Sequence[int], sides: Sequence[Sequence[_Candidate]]
) -> list[tuple[int, int]]:
    """Return pairs in which one column is named after its language and the other after its role."""
    pairs = []
    for side in (0, 1):
        exact = [candidate.column for candidate in sides[side] if candidate.shape == ("*",)]
        others = _of_role(names, columns, 1 - side)
        pairs += [(one, other) if side == 0 else (other, one) for one in exact for other in others if one != other]
    return pairs
