"""Every knob of the pipeline, once: its default, its bounds and its meaning.

A section of a recipe is a module of its name: the knob `train.seed` is in train.py. Beside them:

pipeline.py   all sections together, and what one of them asks of another
filters.py    the part of `clean` that may differ from corpus to corpus
section.py    what every section is

The same object is the YAML recipe, the form in the Prefect UI, the input of every stage, what `torchrun` receives and
what MLflow logs. Paths of this machine, addresses of servers and secrets are settings (`flows.settings`), never
configuration. Nothing in here imports torch or anything else that is slow.
"""

from nmt_core.config.average import AverageConfig
from nmt_core.config.budget import BudgetConfig
from nmt_core.config.clean import CROSS_ENTROPY_DIFFERENCE, CleanConfig, ScoreRule
from nmt_core.config.corpus import CorpusConfig, ParallelCorpus, ToyCorpusConfig
from nmt_core.config.encode import EncodeConfig
from nmt_core.config.evaluate import EvaluateConfig, Kept, MustTranslate
from nmt_core.config.export import PRECISIONS, ExportConfig, Precision
from nmt_core.config.filters import FilterConfig, FilterOverride
from nmt_core.config.languages import SIDES, LanguagesConfig, Side
from nmt_core.config.mix import MixConfig, MixRule
from nmt_core.config.model import ModelConfig, RnnConfig
from nmt_core.config.pipeline import PipelineConfig
from nmt_core.config.registry import METRICS, MetricName, RegistryConfig, SignificanceTest
from nmt_core.config.schedule import ScheduleConfig
from nmt_core.config.search import SearchConfig
from nmt_core.config.section import Section
from nmt_core.config.split import SplitConfig
from nmt_core.config.tokenizer import Pretokenizing, TokenizerConfig
from nmt_core.config.train import TrainConfig

__all__ = [
    "CROSS_ENTROPY_DIFFERENCE",
    "METRICS",
    "PRECISIONS",
    "SIDES",
    "AverageConfig",
    "BudgetConfig",
    "CleanConfig",
    "CorpusConfig",
    "EncodeConfig",
    "EvaluateConfig",
    "ExportConfig",
    "FilterConfig",
    "FilterOverride",
    "Kept",
    "LanguagesConfig",
    "MetricName",
    "MixConfig",
    "MixRule",
    "ModelConfig",
    "MustTranslate",
    "ParallelCorpus",
    "PipelineConfig",
    "Precision",
    "Pretokenizing",
    "RegistryConfig",
    "RnnConfig",
    "ScheduleConfig",
    "ScoreRule",
    "SearchConfig",
    "Section",
    "Side",
    "SignificanceTest",
    "SplitConfig",
    "TokenizerConfig",
    "ToyCorpusConfig",
    "TrainConfig",
]
