"""Configuration of the pipeline: every option with its default, its bounds and its description.

Each section of a recipe is a module of the same name: `train.seed` is in train.py. The other modules are:

- pipeline.py: the whole recipe, and the rules that hold between its sections
- many_languages.py: the rules that hold with `languages.pairs`
- filters.py: the options of `clean` that may differ between corpora
- section.py: the base class of all sections
- language_codes.py: ISO 639 codes of languages
- systems.py: other systems in `evaluate.systems`
- renamed.py: earlier names of options and values

An option of text that is not set is the empty string, and its description says what "Empty means". It is not None,
because the two have different fingerprints: stored recipes contain the empty string.

The same object is the YAML recipe, the form in the Prefect UI, the input of every stage, the configuration that
`torchrun` receives and the parameters that MLflow logs. Paths on this machine, server addresses and secrets are
settings (`flows.settings`), never configuration. This package imports neither torch nor any other slow module.
"""

from nmt_core.config.augmentation import AugmentationConfig, AugmentedPart, Change
from nmt_core.config.average import AverageConfig
from nmt_core.config.budget import BudgetConfig
from nmt_core.config.clean import CROSS_ENTROPY_DIFFERENCE, CleanConfig, ScoreRule
from nmt_core.config.corpus import CorpusConfig, MonolingualCorpus, ParallelCorpus, ToyCorpusConfig
from nmt_core.config.encode import EncodeConfig
from nmt_core.config.evaluate import BuiltInMetric, EvaluateConfig, Kept, Metric, MustTranslate, Suite, SuiteKind
from nmt_core.config.export import PRECISIONS, ExportConfig, Precision
from nmt_core.config.filters import FilterConfig, FilterOverride
from nmt_core.config.languages import OTHER_SIDE, SIDES, TOKEN_COLUMNS, LanguagesConfig, Side, reverse_of, tag_of
from nmt_core.config.mix import MixConfig, MixRule, PairRule
from nmt_core.config.model import ModelConfig, RnnConfig
from nmt_core.config.pipeline import PipelineConfig
from nmt_core.config.registry import MetricName, RegistryConfig, SignificanceTest
from nmt_core.config.rounds import RoundsConfig
from nmt_core.config.schedule import ScheduleConfig
from nmt_core.config.search import RerankingJudge, SearchConfig
from nmt_core.config.section import Section
from nmt_core.config.split import SplitConfig
from nmt_core.config.synthesis import REVERSE, MadeFrom, Rejected, SynthesisConfig, SyntheticPart
from nmt_core.config.systems import HttpForm, System
from nmt_core.config.tokenizer import Pretokenizing, TokenizerConfig
from nmt_core.config.train import CurriculumPhase, TrainConfig

__all__ = [
    "CROSS_ENTROPY_DIFFERENCE",
    "OTHER_SIDE",
    "PRECISIONS",
    "REVERSE",
    "SIDES",
    "TOKEN_COLUMNS",
    "AugmentationConfig",
    "AugmentedPart",
    "AverageConfig",
    "BudgetConfig",
    "BuiltInMetric",
    "Change",
    "CleanConfig",
    "CorpusConfig",
    "CurriculumPhase",
    "EncodeConfig",
    "EvaluateConfig",
    "ExportConfig",
    "FilterConfig",
    "FilterOverride",
    "HttpForm",
    "Kept",
    "LanguagesConfig",
    "MadeFrom",
    "Metric",
    "MetricName",
    "MixConfig",
    "MixRule",
    "ModelConfig",
    "MonolingualCorpus",
    "MustTranslate",
    "PairRule",
    "ParallelCorpus",
    "PipelineConfig",
    "Precision",
    "Pretokenizing",
    "RegistryConfig",
    "Rejected",
    "RerankingJudge",
    "RnnConfig",
    "RoundsConfig",
    "ScheduleConfig",
    "ScoreRule",
    "SearchConfig",
    "Section",
    "Side",
    "SignificanceTest",
    "SplitConfig",
    "Suite",
    "SuiteKind",
    "SynthesisConfig",
    "SyntheticPart",
    "System",
    "TokenizerConfig",
    "ToyCorpusConfig",
    "TrainConfig",
    "reverse_of",
    "tag_of",
]
