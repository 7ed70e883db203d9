"""All filters over a table of pairs: cheap ones first, costly ones only on what is left.

The filters come in steps. A step is asked only of the pairs that every earlier step keeps, so that language
identification, say, never sees the rows that a count of words drops already.
"""

from collections.abc import Iterator, Sequence

import polars as pl

from nmt_core.corpus import normalize
from nmt_core.corpus.cleaning.filters import agreement, form, language, outside, repetition, word_lists
from nmt_core.corpus.cleaning.filters.base import Filter, Step, languages_by_side
from nmt_core.corpus.cleaning.thresholds import CleanRules

Columns = dict[str, pl.DataType]


def steps(rules: CleanRules) -> list[Step]:
    """All filters that are switched on, in the order in which they are asked.

    Raises:
        ConfigError: a scorer or further filter cannot be had.
    """
    copies = [agreement.copy()] if rules.thresholds.drop_copies else []
    of_form = [*form.filters(rules), *copies, *form.filters_by_language(rules)]
    plain = Step([*of_form, *agreement.filters(rules)])
    lists = Step(word_lists.filters(rules))
    found = [plain, *_of_words(rules), lists, *language.steps(rules), *outside.steps(rules)]
    return [step for step in found if step.filters]


def _of_words(rules: CleanRules) -> Iterator[Step]:
    config = rules.thresholds
    if config.max_repeated_characters:
        yield Step([repetition.repeated_characters(config)])
    asked = []
    if config.max_copied_share < 1:
        asked.append(agreement.near_copy(config))
    if config.max_repeated_words:
        asked.append(repetition.repeated_words(config, rules.languages))
    sides = languages_by_side(rules.languages)
    yield Step(asked, [normalize.words(pl.col(side), code).alias(f"{side}_words") for side, code in sides.items()])


def knobs(rules: CleanRules) -> dict[str, str]:
    """What to change to keep more, by reason.

    Raises:
        ConfigError: a scorer or further filter cannot be had.
    """
    return {rule.reason: rule.knob for step in steps(rules) for rule in step.filters}


def judge(pairs: pl.LazyFrame, rules: CleanRules) -> pl.LazyFrame:
    """Give each pair that is to go the reason and the measure that decided.

    Args:
        pairs: columns source and target (normalised), source_key and target_key (`normalize.key`), fault and
            fault_value (why the row could not be read, or null); others are left as they are.
        rules: the thresholds.

    Returns:
        The same rows in the same order, with the columns reason and value (null where the pair is kept),
        source_language and target_language (as identified; null where nothing was), and score_0, score_1... for each of
        `clean.scores`.

    Raises:
        ConfigError: a scorer or further filter cannot be had; on collecting: one returns nonsense.
    """
    # One step of the plan of polars for all of ours: an expression is computed for every row, in a `when` as well, and
    # what earlier steps leave is not a filter either, since the rows that go must come back with their reasons.
    plan, added = steps(rules), _added(rules)
    return pairs.map_batches(
        lambda table: table.hstack(_verdicts(table, plan, added)),
        schema=dict(pairs.collect_schema()) | added,
        predicate_pushdown=False,
        projection_pushdown=False,
        slice_pushdown=False,
    )


def _added(rules: CleanRules) -> Columns:
    texts = ("reason", "value", "source_language", "target_language")
    return dict.fromkeys(texts, pl.String()) | dict.fromkeys(outside.score_columns(rules), pl.Float64())


def _verdicts(table: pl.DataFrame, plan: Sequence[Step], added: Columns) -> pl.DataFrame:
    """The added columns, row by row."""
    looked_at = table.select("source", "target", "source_key", "target_key", reason="fault", value="fault_value")
    is_faulty = pl.col("reason").is_not_null()
    left = looked_at.with_row_index("row")
    settled = [left.filter(is_faulty)]
    left = left.filter(~is_faulty).drop("reason", "value")
    for step in plan:
        measured = left.lazy()
        for measure in step.measures:
            measured = measured.with_columns(measure)
        asked = measured.with_columns(reason=_reason(step.filters)).collect()
        dropped = asked.filter(pl.col("reason").is_not_null())
        settled.extend(_valued(dropped.filter(reason=rule.reason), rule) for rule in step.filters)
        left = asked.filter(pl.col("reason").is_null()).drop("reason")
    verdicts = pl.concat([_only(part, added) for part in (*settled, left)])
    return verdicts.sort("row").drop("row")


def _only(table: pl.DataFrame, added: Columns) -> pl.DataFrame:
    """The number of the row, and the added columns, null where the row went too early to have them."""
    columns = (
        pl.col(name) if name in table.columns else pl.lit(None, dtype).alias(name) for name, dtype in added.items()
    )
    return table.select("row", *columns)


def _reason(asked: Sequence[Filter]) -> pl.Expr:
    """Reason of the first filter that drops the pair; null if all keep it."""
    return pl.coalesce(*(pl.when(rule.drop).then(pl.lit(rule.reason)) for rule in asked))


def _valued(dropped: pl.DataFrame, rule: Filter) -> pl.DataFrame:
    """What a filter drops, with its measure as text."""
    return dropped.with_columns(value=rule.value.cast(pl.String))
