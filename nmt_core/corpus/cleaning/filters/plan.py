"""Apply all filters to a table of pairs: cheap ones first, costly ones only to the remaining pairs.

The filters are grouped in steps. A step sees only the pairs that all earlier steps keep. Language identification, for
example, never sees the rows that a word count drops.
"""

from collections.abc import Iterator, Sequence

import polars as pl

from nmt_core.config import SIDES
from nmt_core.corpus import normalize
from nmt_core.corpus.cleaning.filters import agreement, form, language, outside, repetition, word_lists
from nmt_core.corpus.cleaning.filters.base import Filter, Step
from nmt_core.corpus.cleaning.thresholds import CleanRules

Columns = dict[str, pl.DataType]


def steps(rules: CleanRules) -> list[Step]:
    """Return all active filters in the order in which they are applied.

    Raises:
        ConfigError: a scorer or an external filter cannot be loaded.
    """
    copies = [agreement.copy()] if rules.thresholds.drop_copies and _has_both(rules) else []
    of_form = [*form.filters(rules), *copies, *form.filters_by_language(rules)]
    plain = Step([*of_form, *agreement.filters(rules)], form.measures(rules))
    lists = Step(word_lists.filters(rules))
    external = outside.steps(rules) if _has_both(rules) else []
    all_steps = [plain, *_of_words(rules), lists, *language.steps(rules), *external]
    return [step for step in all_steps if step.filters]


def _has_both(rules: CleanRules) -> bool:
    """Return True if the rules are for pairs, and not for text of one side."""
    return len(rules.sides) == len(SIDES)


def _of_words(rules: CleanRules) -> Iterator[Step]:
    config = rules.thresholds
    if characters := repetition.repeated_characters(rules):
        yield Step([characters])
    active = []
    if config.max_copied_share < 1 and _has_both(rules):
        active.append(agreement.near_copy(config))
    if words := repetition.repeated_words(rules):
        active.append(words)
    yield Step(active, [normalize.words(pl.col(side)).alias(f"{side}_words") for side in rules.sides])


def remedies(rules: CleanRules) -> dict[str, str]:
    """Return the option to change in order to keep more pairs, by reason.

    Raises:
        ConfigError: a scorer or an external filter cannot be loaded.
    """
    return {rule.reason: rule.remedy for step in steps(rules) for rule in step.filters}


def judge(pairs: pl.LazyFrame, rules: CleanRules) -> pl.LazyFrame:
    """Add a reason, and the measurement that decided, to each pair to drop.

    Args:
        pairs: columns source and target (normalised), source_key and target_key (`normalize.key`), fault and
            fault_value (the reason why the row could not be read, or null). Other columns are left unchanged.
        rules: the thresholds.

    Returns:
        The same rows in the same order, with the columns reason and value (null where the pair is kept),
        source_language and target_language (as identified, or null), and score_0, score_1... for each of
        `clean.scores`.

    Raises:
        ConfigError: a scorer or an external filter cannot be loaded. Collecting raises it if one returns invalid
            values.
    """
    # All steps are one node of the polars plan. Polars would compute an expression for every row, even inside a `when`.
    # A polars filter between the steps is not possible either: dropped rows must come back with their reasons.
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
    """Return the added columns for each row."""
    looked_at = table.select("source", "target", "source_key", "target_key", reason="fault", value="fault_value")
    is_faulty = pl.col("reason").is_not_null()
    left = looked_at.with_row_index("row")
    settled = [left.filter(is_faulty)]
    left = left.filter(~is_faulty).drop("reason", "value")
    for step in plan:
        measured = left.lazy()
        for measure in step.measures:
            measured = measured.with_columns(measure)
        judged = measured.with_columns(reason=_reason(step.filters)).collect()
        dropped = judged.filter(pl.col("reason").is_not_null())
        settled.extend(_valued(dropped.filter(reason=rule.reason), rule) for rule in step.filters)
        kept = [name for name in judged.columns if name in looked_at.columns or name in added or name == "row"]
        left = judged.filter(pl.col("reason").is_null()).select(kept).drop("reason")
    verdicts = pl.concat([_only(part, added) for part in (*settled, left)])
    return verdicts.sort("row").drop("row")


def _only(table: pl.DataFrame, added: Columns) -> pl.DataFrame:
    """Return the row number and the added columns, null where the row was dropped before they were computed."""
    columns = (
        pl.col(name) if name in table.columns else pl.lit(None, dtype).alias(name) for name, dtype in added.items()
    )
    return table.select("row", *columns)


def _reason(filters: Sequence[Filter]) -> pl.Expr:
    """Return the reason of the first filter that drops the pair, or null if all keep it."""
    return pl.coalesce(*(pl.when(rule.drop).then(pl.lit(rule.reason)) for rule in filters))


def _valued(dropped: pl.DataFrame, rule: Filter) -> pl.DataFrame:
    """Return the pairs dropped by a filter, with its measurement as text."""
    return dropped.with_columns(value=rule.value.cast(pl.String))
