"""Stages: their names in order, the common structure of a stage, and the table of all stages."""

from typing import Literal, get_args

StageName = Literal[
    "download",
    "clean",
    "split",
    "synthesise",
    "augment",
    "tokenizer",
    "encode",
    "train",
    "average",
    "export",
    "evaluate",
]
"""Name of a stage. The names are in the order in which a run makes the stages, and each has an entry in `table.py`.

A run makes the stages that its recipe needs: `table.stages_of`."""

STAGE_NAMES: tuple[StageName, ...] = get_args(StageName)
