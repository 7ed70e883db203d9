"""Whole recipe: its sections, and the rules that hold between them."""

from typing import get_args

from pydantic import Field, model_validator

from nmt_core.config.augmentation import AugmentationConfig
from nmt_core.config.average import AverageConfig
from nmt_core.config.budget import BudgetConfig
from nmt_core.config.clean import CleanConfig
from nmt_core.config.corpus import CorpusConfig
from nmt_core.config.encode import EncodeConfig
from nmt_core.config.evaluate import EvaluateConfig
from nmt_core.config.export import ExportConfig
from nmt_core.config.languages import LanguagesConfig
from nmt_core.config.many_languages import problem_of_pairs
from nmt_core.config.mix import MixConfig
from nmt_core.config.model import ModelConfig
from nmt_core.config.registry import MetricName, RegistryConfig
from nmt_core.config.rounds import RoundsConfig, problem_of_rounds
from nmt_core.config.schedule import ScheduleConfig
from nmt_core.config.search import SearchConfig
from nmt_core.config.section import Section
from nmt_core.config.split import SplitConfig
from nmt_core.config.synthesis import SynthesisConfig, SyntheticPart
from nmt_core.config.tokenizer import TokenizerConfig
from nmt_core.config.train import TrainConfig


class PipelineConfig(Section):
    """Recipe: everything that decides the trained model."""

    name: str = Field(pattern="^[A-Za-z0-9._-]+$")
    """Short name of the recipe."""
    description: str = ""
    """Description of the recipe, in a line or two. Empty means none."""
    languages: LanguagesConfig = LanguagesConfig()
    corpus: CorpusConfig
    clean: CleanConfig = CleanConfig()
    split: SplitConfig = SplitConfig()
    mix: MixConfig = MixConfig()
    synthesis: SynthesisConfig = SynthesisConfig()
    augmentation: AugmentationConfig = AugmentationConfig()
    rounds: RoundsConfig = RoundsConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    encode: EncodeConfig = EncodeConfig()
    model: ModelConfig = ModelConfig()
    train: TrainConfig = TrainConfig()
    average: AverageConfig = AverageConfig()
    export: ExportConfig = ExportConfig()
    search: SearchConfig = SearchConfig()
    evaluate: EvaluateConfig = EvaluateConfig()
    registry: RegistryConfig = RegistryConfig()
    budget: BudgetConfig = BudgetConfig()

    schedule: ScheduleConfig = ScheduleConfig()

    @model_validator(mode="after")
    def _fits_together(self) -> "PipelineConfig":
        if self.average.strategy == "ema":
            if not self.train.ema_decay:
                raise ValueError(
                    "average.strategy=ema needs a moving average: set train.ema_decay, for example to 0.999"
                )
        else:
            kept = {"train.keep_checkpoints": self.train.keep_checkpoints}
            if self.average.strategy == "best":  # the best may be the last, so their numbers do not add up
                kept["train.keep_best"] = self.train.keep_best
            for name, count in (("checkpoints", self.average.checkpoints), ("ensemble", self.average.ensemble)):
                if count > max(kept.values()):
                    raise ValueError(
                        f"average.{name}={count} is more than "
                        f"{' and '.join(f'{option}={most}' for option, most in kept.items())}: keep at least as many"
                    )
        longest = self.train.micro_batch_tokens // (2 if self.train.batching == "packed" else 1)
        if self.encode.max_length > longest:
            raise ValueError(
                f"encode.max_length={self.encode.max_length} is more than {longest}, the most that fits into "
                f"train.micro_batch_tokens={self.train.micro_batch_tokens} with train.batching={self.train.batching}: "
                "lower the one or raise the other"
            )
        one_way = {"char", "word"} & set(self.tokenizer.kinds)
        if self.encode.subword_sampling and one_way and not self.tokenizer.start_from:
            raise ValueError(
                f"encode.subword_sampling={self.encode.subword_sampling} has nothing to sample: tokenizer.kind="
                f"{one_way.pop()} has one segmentation of each text: set it to 0, or kind to bpe or unigram"
            )
        if self.search.shortlist == "always" and not self.export.shortlist:
            raise ValueError(
                "search.shortlist=always needs a model with a shortlist: set export.shortlist to true as well"
            )
        if self.model.architecture == "rnn" and self.train.batching == "packed":
            raise ValueError(
                "train.batching=packed needs model.architecture=transformer, because a recurrent network reads "
                "sentences side by side: set train.batching to padded"
            )
        if self.train.bptt_steps and self.model.architecture != "rnn":
            raise ValueError(
                f"train.bptt_steps={self.train.bptt_steps} has no effect on a Transformer, which has no recurrent "
                "layers: set model.architecture to rnn, or remove train.bptt_steps"
            )
        if self.train.int8_aware_from and self.model.architecture == "rnn":
            raise ValueError(
                f"train.int8_aware_from={self.train.int8_aware_from} has no effect on a recurrent network, which "
                "has no int8 graphs: set model.architecture to transformer, or remove train.int8_aware_from"
            )
        if self.tokenizer.vocabularies == "separate" and self.model.tied_embeddings == "three_way":
            raise ValueError(
                "tokenizer.vocabularies=separate leaves nothing to tie three ways: set model.tied_embeddings to two_way"
            )
        return self

    @model_validator(mode="after")
    def _has_text_for_each_pair(self) -> "PipelineConfig":
        if problem := problem_of_pairs(self):
            raise ValueError(problem)
        return self

    @model_validator(mode="after")
    def _has_new_rows_to_train(self) -> "PipelineConfig":
        if self.train.new_rows_first and not self.tokenizer.added_pieces:
            raise ValueError(
                f"train.new_rows_first={self.train.new_rows_first} has no effect without new pieces: set "
                "tokenizer.added_pieces, or train.new_rows_first to 0"
            )
        return self

    @model_validator(mode="after")
    def _has_the_metric_of_the_gate(self) -> "PipelineConfig":
        known = [*get_args(MetricName), *(metric.name for metric in self.evaluate.metrics)]
        if self.registry.metric not in known:
            raise ValueError(
                f"registry.metric={self.registry.metric!r} is none of {', '.join(dict.fromkeys(known))}: correct it, "
                "or add it to evaluate.metrics"
            )
        return self

    @model_validator(mode="after")
    def _has_alignments_to_learn(self) -> "PipelineConfig":
        if self.model.alignment_layer and not self.encode.alignments:
            raise ValueError(
                f"model.alignment_layer={self.model.alignment_layer} has nothing to learn from: set encode.alignments "
                "to true as well"
            )
        return self

    @model_validator(mode="after")
    def _has_enough_positions(self) -> "PipelineConfig":
        positions, search = self.model.max_positions, self.search
        if self.model.positions == "learned" and self.encode.max_length > positions:
            raise ValueError(
                f"encode.max_length={self.encode.max_length} is more than model.max_positions={positions}: lower the "
                "one or raise the other"
            )
        if self.model.positions == "learned" and search.most_positions > positions:
            raise ValueError(
                f"search.max_source_tokens={search.max_source_tokens} with search.max_length_factor="
                f"{search.max_length_factor:g} and search.max_length_offset={search.max_length_offset} needs "
                f"{search.most_positions:,} positions, more than model.max_positions={positions}: lower the first, or "
                "raise the last"
            )
        return self

    @model_validator(mode="after")
    def _names_its_own_corpora(self) -> "PipelineConfig":
        names = {corpus.name for corpus in self.corpus.train} or {"toy"}
        made = {part.name for part in self.synthesis.parts} | {part.name for part in self.augmentation.parts}
        named = {
            f"mix.corpora.{n}.corpus": rule.corpus for n, rule in enumerate(self.mix.corpora) if rule.corpus not in made
        }
        alone = {corpus.name for corpus in self.corpus.monolingual}
        named |= {
            f"clean.overrides.{n}.corpus": rule.corpus
            for n, rule in enumerate(self.clean.overrides)
            if rule.corpus not in alone
        }
        if self.clean.in_domain not in {corpus.name for corpus in self.corpus.dev}:
            named["clean.in_domain"] = self.clean.in_domain
        for place, name in named.items():
            if name and name not in names:
                raise ValueError(f"{place}={name!r} is not in corpus.train ({', '.join(sorted(names))}): correct it")
        return self

    @model_validator(mode="after")
    def _has_teachers_for_rounds(self) -> "PipelineConfig":
        if problem := problem_of_rounds(self):
            raise ValueError(problem)
        return self

    @model_validator(mode="after")
    def _has_text_in_each_phase(self) -> "PipelineConfig":
        names = self._trained_on + [part.name for part in self.augmentation.parts]
        for number, phase in enumerate(self.train.curriculum):
            for name in phase.corpora:
                if name not in names:
                    raise ValueError(
                        f"train.curriculum.{number}.corpora: {name!r} is not in the training text "
                        f"({', '.join(sorted(names))}): correct it"
                    )
        return self

    @property
    def _trained_on(self) -> list[str]:
        """Names of the corpora of the training text, without augmented ones."""
        parallel = [corpus.name for corpus in self.corpus.train] or ["toy"]
        return (parallel if self.synthesis.train_on_parallel else []) + [part.name for part in self.synthesis.parts]

    @model_validator(mode="after")
    def _has_text_to_change(self) -> "PipelineConfig":
        corpus, names = self.corpus, self._trained_on
        taken = {*names, *(text.name for text in (*corpus.train, *corpus.dev, *corpus.test))}
        taken |= {text.name for text in corpus.monolingual}
        for number, part in enumerate(self.augmentation.parts):
            place = f"augmentation.parts.{number}"
            if part.name in taken:
                raise ValueError(f"{place}.name={part.name!r} is the name of another corpus: give it a name of its own")
            taken.add(part.name)
            if unknown := [name for name in part.corpora if name not in names]:
                raise ValueError(f"{place}.corpora: {unknown[0]!r} is none of {', '.join(names)}: correct it")
        return self

    @model_validator(mode="after")
    def _has_text_to_translate(self) -> "PipelineConfig":
        corpus = self.corpus
        taken = [files.name for files in (*corpus.train, *corpus.dev, *corpus.test)] or ["toy"]
        taken += [text.name for text in corpus.monolingual]
        for number, part in enumerate(self.synthesis.parts):
            place = f"synthesis.parts.{number}"
            if part.name in taken:
                raise ValueError(f"{place}.name={part.name!r} is the name of another corpus: give it a name of its own")
            taken.append(part.name)
            names = self.text_of(part)
            if not names:
                raise ValueError(
                    f"{place}.text={part.text} needs monolingual text of the {part.side} language: name some in "
                    f"corpus.monolingual, with language: {self.languages.of(part.pair).tag(part.side)}"
                )
            if unknown := [name for name in part.corpora if name not in names]:
                raise ValueError(f"{place}.corpora: {unknown[0]!r} is none of {', '.join(names)}: correct it")
        return self

    def text_of(self, part: SyntheticPart) -> list[str]:
        """Return the names of the corpora from which a synthetic corpus may take its sentences."""
        if part.text == "parallel_source":
            return [text.name for text in self.corpus.train if not part.pair or part.pair in text.pairs] or ["toy"]
        language = self.languages.of(part.pair).tag(part.side)
        return [
            text.name
            for text in self.corpus.monolingual
            if text.languages_in(self.languages).tag(text.side_in(self.languages)) == language
        ]

    @property
    def model_name(self) -> str:
        """Name under which the model is registered."""
        return self.registry.model_name or self.name
