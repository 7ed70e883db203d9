"""Set punctuation in half width, as Latin text has it, or in full width, as Chinese and Japanese text has it.

Text from many sources mixes both: "你好,世界!" and "你好，世界！" are the same sentence. The text itself tells whether
a mark stands among Han or Kana, so one rule serves both sides of a pair. Korean sets its marks in half width.
"""

import re
from typing import Literal

from nmt_core.text.unspaced import HAN_AND_KANA

Width = Literal["half_width", "full_width"]

_OPENING, _CLOSING = "（【〔〖《〈「『", "）】〕〗》〉」』"

_LETTERS_IN_FULL_WIDTH = "\uff10-\uff19\uff21-\uff3a\uff41-\uff5a"
"""Letters and digits of ASCII in full width. Today's Chinese and Japanese text writes them in half width."""
SIGN = {
    "half_width": "[\u3001\u3002\u3008-\u3011\u3014-\u3017\u301c\uff01-\uff5e]",
    "full_width": f"(?s)[{HAN_AND_KANA}].*[,.!?;:(]|[,.!?;:(].*[{HAN_AND_KANA}]|[{_LETTERS_IN_FULL_WIDTH}]",
}
"""Regular expression that a text matches if it may need a change."""

_FROM_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_HALF_WIDTH = _FROM_FULL_WIDTH | str.maketrans("、。〈〉《》「」『』【】〔〕〖〗〜", ',.<>""""\'\'[][][]~')
_LATIN = {code: half for code, half in _FROM_FULL_WIDTH.items() if chr(half).isalnum()}
_FULL_WIDTH = str.maketrans("!?;:", "！？；：")

# Latin text has a space behind a mark and outside of brackets. "１２：３０" is a number.
_MARK_BEFORE_WORD = re.compile(rf"(?<=\d)[，：](?=\d)|([，、。：；！？])(?=[^\W_]|[{_OPENING}])")
_BRACKET_AT_WORD = re.compile(rf"(?<=[^\W_])(?=[{_OPENING}])|(?<=[{_CLOSING}])(?=[^\W_])")

_BEFORE, _AFTER = rf"(?<=[{HAN_AND_KANA}{_CLOSING}])", rf"(?=[{HAN_AND_KANA}{_OPENING}])"
_COMMA = re.compile(rf"{_BEFORE} ?, *|, *{_AFTER}")
_FULL_STOP = re.compile(rf"{_BEFORE} ?\.(?: *{_AFTER}|(?=[ {_CLOSING}\"'”’)]|$))")
# Not the eyes of ":-)", and not the colon of "://". Runs are matched whole, in linear time.
_RUN = "((?:[!?;]|:(?![-()/DP]))++)"
_OTHER_MARKS = re.compile(rf"{_BEFORE} ?{_RUN}(?: *{_AFTER})?|(?<![!?;:]){_RUN} *{_AFTER}")
_IN_PARENTHESES = re.compile(rf"(?:(?<=[{HAN_AND_KANA}]) )?\(([^()]*)\)(?: (?=[{HAN_AND_KANA}]))?")
_ANY_HAN_OR_KANA = re.compile(f"[{HAN_AND_KANA}]")


def set_width(text: str, width: Width, language: str = "") -> str:
    """Return the text with its punctuation in half width or in full width. Idempotent.

    In half width, a space follows a mark that a word follows. In full width, only marks beside Han or Kana change, and
    the spaces beside them go. The comma of `ja` is "、", and elsewhere it is "，". Letters and digits in full width
    turn into ASCII ones in both.
    """
    if width == "half_width":
        spaced = _MARK_BEFORE_WORD.sub(lambda match: match[0] + (" " if match[1] else ""), text)
        return _BRACKET_AT_WORD.sub(" ", spaced).translate(_HALF_WIDTH)
    text = _COMMA.sub("、" if language == "ja" else "，", text.translate(_LATIN))
    text = _FULL_STOP.sub("。", text)
    text = _OTHER_MARKS.sub(lambda match: (match[1] or match[2]).translate(_FULL_WIDTH), text)
    return _IN_PARENTHESES.sub(_with_wide_parentheses, text)


def _with_wide_parentheses(match: re.Match[str]) -> str:
    return f"（{match[1]}）" if _ANY_HAN_OR_KANA.search(match[1]) else match[0]
