"""Choose among the candidates of a search by the program of `search.judge`, which sees no reference."""

from collections.abc import Sequence

from nmt_core.config import RerankingJudge, SearchConfig
from nmt_core.judges.lines import ProgramError, require_code
from nmt_core.judges.programs import numbers_of_rows
from nmt_core.search.reranking import Rank
from nmt_core.translator import Translator


def judge_of(judge: RerankingJudge, *, allow_code: bool = True) -> Rank:
    """Return the function by which `Translator.with_judge` asks a program.

    Args:
        judge: the program.
        allow_code: False if recipes may not name programs (NMT_ALLOW_CODE). The function then raises `ProgramError`.
    """
    sign = -1.0 if judge.lower_is_better else 1.0

    def rank(pairs: Sequence[tuple[str, str]]) -> list[float]:
        rows = [{"source": source, "translation": text} for source, text in pairs]
        try:
            numbers = numbers_of_rows(judge, rows, "source and translation", allow_code=allow_code)
        except ProgramError as error:
            raise ProgramError(f"search.judge {judge.name}: {error}") from None
        return [sign * number for number in numbers]

    return rank


def with_its_judge(translator: Translator, *, allow_code: bool = True) -> Translator:
    """Return the translator with the judge that its search names. Without one, it stays as it is.

    Args:
        translator: translator whose search may name a judge.
        allow_code: False if recipes may not name programs (NMT_ALLOW_CODE). Every line then keeps its first candidate.
    """
    judge = translator.search.judge
    return translator.with_judge(judge_of(judge, allow_code=allow_code)) if judge else translator


def require_allowed(search: SearchConfig, *, allow_code: bool) -> None:
    """Check that the program of a search may run.

    Raises:
        ProgramError: recipes and forms may not name programs here.
    """
    if search.judge:
        require_code(f"search.judge: `{search.judge.command}`", allow_code=allow_code)
