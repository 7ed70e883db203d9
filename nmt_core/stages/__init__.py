"""The stages: their names in order, the shape of a stage, and the table of all stages."""

from typing import Literal, get_args

StageName = Literal["download", "clean", "split", "tokenizer", "encode", "train", "average", "export", "evaluate"]
"""Name of a stage, in the order in which a run makes them. Each has an entry in `table.py`."""

STAGE_NAMES: tuple[StageName, ...] = get_args(StageName)
