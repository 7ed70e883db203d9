"""`train`: optimisation, validation and checkpoints."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from nmt_core.config.evaluate import Metric
from nmt_core.config.section import Section, Seed, first_repeated, later


class CurriculumPhase(Section):
    """Part of a training that reads its own mix of the training corpora."""

    name: str = Field(pattern="^[A-Za-z0-9._-]+$")
    """Name of the phase, used in logs and reports."""
    corpora: dict[str, Annotated[float, Field(gt=0)]] = later({})
    """Corpora to read, each with the number of times that an epoch of the phase reads its pairs. 0.5 reads half of
    them, drawn anew in each epoch. Corpora that are not named are not read. Empty means the whole training text, as
    `mix` made it."""
    updates: int = later(0, ge=0)
    """Number of updates after which the next phase begins. 0 means no limit. The last phase ends with `max_updates`."""
    patience: int = later(0, ge=0)
    """Number of validations without a better `stop_on` in this phase after which the next phase begins, or training
    stops. 0 means no limit."""


class TrainConfig(Section):
    """Optimisation. The number of processes changes the speed, never the result."""

    start_from: str = ""
    """Weights from which training starts: a registered model (`models:/NAME@ALIAS` or `models:/NAME/VERSION`), an
    artifact (`average/FINGERPRINT` or `train/FINGERPRINT`), its folder, or a .safetensors file. Empty means random
    weights. The `model` section must be the same as in this recipe, and so must the vocabulary, unless
    `tokenizer.added_pieces` extends it. New pieces then begin with the mean of the older pieces that spelled them."""
    start_optimizer: Literal["fresh", "kept"] = "fresh"
    """Initial state of Adam's moments. `fresh`: zero. `kept`: from the last checkpoint of a `train/FINGERPRINT`. In
    both cases the learning rate, the order of the data and the count of updates start from the beginning."""
    new_rows_first: int = later(0, ge=0)
    """Number of first updates that change only the rows of new pieces in the embeddings and the output matrix, with
    `tokenizer.added_pieces`. All other weights stay as they are, weight decay included. 0 means that all weights are
    trained from the first update."""
    seed: Seed = 1
    """Random seed of the weights, of dropout and of the order of the data."""
    max_updates: int = Field(100_000, ge=1)
    """Total number of updates of the weights."""
    batching: Literal["padded", "packed"] = "padded"
    """Layout of batches. `padded`: pairs of similar length, padded to one length (for CPUs). `packed`: pairs of any
    length, packed into streams (for GPUs)."""
    max_tokens: int = Field(25_000, ge=64)
    """Maximum number of tokens per update on either side, over all processes, padding included."""
    micro_batch_tokens: int = Field(2_048, ge=64)
    """Maximum number of tokens in a micro-batch on either side, padding included. An update has as many micro-batches
    as fit, shared among the processes."""
    max_tokens_per_pass: int = Field(25_000, ge=64)
    """Maximum number of tokens that a process computes at once: it joins its packed micro-batches up to this limit.
    Higher values take more memory."""
    warmup_updates: int = Field(4_000, ge=1)
    """Number of updates over which the learning rate rises (Vaswani et al. 2017, section 5.3)."""
    learning_rate_schedule: Literal["inverse_sqrt", "constant"] = "inverse_sqrt"
    """Learning rate schedule: a rise over `warmup_updates` and a decay after it (Vaswani et al. 2017, section 5.3), or
    a constant `learning_rate_scale`."""
    learning_rate_scale: float = Field(1.0, gt=0)
    """Factor of the learning rate d_model^-0.5 * min(update^-0.5, update * warmup_updates^-1.5) (Vaswani et al. 2017,
    section 5.3). With a constant schedule, this is the learning rate itself."""
    optimizer: Literal["adam", "adamw", "adadelta"] = "adam"
    """Optimizer. `adam`: Adam, as published. `adamw`: Adam with decoupled weight decay (Loshchilov and Hutter 2019).
    `adadelta`: Adadelta (Zeiler 2012), usually with a constant learning rate of 1."""
    weight_decay: float = Field(0.0, ge=0)
    """Share of each weight that adamw subtracts per update, times the learning rate."""
    adam_beta1: float = Field(0.9, ge=0, lt=1)
    """Decay rate of Adam's first moment."""
    adam_beta2: float = Field(0.98, ge=0, lt=1)
    """Decay rate of Adam's second moment."""
    adam_epsilon: float = Field(1e-9, gt=0)
    """Epsilon of Adam."""
    adadelta_rho: float = Field(0.95, ge=0, lt=1)
    """Decay rate of Adadelta's two moments."""
    adadelta_epsilon: float = Field(1e-6, gt=0)
    """Epsilon of Adadelta."""
    label_smoothing: float = Field(0.1, ge=0, lt=1)
    """Probability mass spread over the whole vocabulary (Vaswani et al. 2017, section 5.4)."""
    alignment_weight: float = later(0.05, gt=0)
    """Factor of the loss of guided alignment, used with `model.alignment_layer`: the cross-entropy of its attention,
    in nats per target token (Garg et al. 2019: 0.05)."""
    max_gradient_norm: float = Field(0.0, ge=0)
    """Norm to which the gradient is clipped. 0 turns clipping off."""
    int8_aware_from: int = later(0, ge=0)
    """First update whose passes use the weights as the int8 export rounds them, so that their rounding costs less
    (quantisation-aware training, Jacob et al. 2018, section 3). The gradient passes through the rounding unchanged
    (Bengio et al. 2013), and the weights that are stored are in fp32. 0 means no update. Needs
    model.architecture=transformer."""
    bptt_steps: int = later(0, ge=0)
    """Number of positions after which the gradient of a recurrent layer through time is cut: truncated back-propagation
    through time (Williams and Peng 1990). 0 means never. Needs model.architecture=rnn."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Number format of the matrix products. The rest is computed in fp32. `auto` means bf16 if the hardware has it,
    else fp32."""
    parallel: Literal["ddp", "fsdp", "hsdp"] = "ddp"
    """Distribution of the weights over the processes. `ddp`: each process has all of them. `fsdp`: each has a shard.
    `hsdp`: each has a shard within its group of `shard_size` processes."""
    shard_size: int = Field(0, ge=0)
    """Number of processes in a group that shares one copy of the weights, for hsdp. 0 means the processes of a node."""
    activation_checkpointing: bool = False
    """Recompute the activations of each layer instead of storing them. This takes a third more time and far less
    memory."""
    compile_layers: bool = True
    """Compile each layer with torch.compile, on GPUs."""
    ema_decay: float = Field(0.0, ge=0, lt=1)
    """Decay of the exponential moving average of the weights: the share of it that each update keeps. 0 keeps no
    average."""
    validate_every: int = Field(1_000, ge=1)
    """Number of updates between two validations on the dev set."""
    checkpoint_every: int = Field(1_000, ge=1)
    """Number of updates between two checkpoints."""
    keep_checkpoints: int = Field(5, ge=1)
    """Number of most recent checkpoints whose weights are kept."""
    keep_best: int = Field(0, ge=0)
    """Number of checkpoints with the best `stop_on` whose weights are kept, in addition to the last
    `keep_checkpoints`."""
    spike_deviations: float = Field(10.0, ge=0)
    """Loss spike that triggers a rollback, in standard deviations above the mean of the previous losses. 0 turns this
    off."""
    spike_window: int = Field(200, ge=10)
    """Number of updates over which the mean and the standard deviation of the loss are taken."""
    max_rollbacks: int = Field(3, ge=0)
    """Maximum number of rollbacks to the last checkpoint, after a loss that is too high or not a number. Training then
    fails."""
    patience: int = Field(0, ge=0)
    """Number of validations without a better `stop_on` after which training stops. 0 means that it never stops
    early. The phases of a `curriculum` have their own."""
    curriculum: tuple[CurriculumPhase, ...] = later(())
    """Phases of the training, in order. Each reads its own mix of the corpora, for example synthetic text first and
    clean text last. The learning rate, Adam's moments and the count of updates continue from phase to phase. Empty
    means that all updates read the whole training text."""
    stop_on: Literal["dev_loss", "bleu", "chrf", "dev_metric"] = "dev_loss"
    """Dev set metric that `patience` watches, and by which `keep_best` chooses checkpoints. `dev_metric`: the score by
    the option of this name."""
    dev_sentences: int = Field(0, ge=0)
    """Number of sentences, evenly spread over the dev set, that each validation translates and scores. 0 means none."""
    dev_beam_size: int = Field(1, ge=1, le=64)
    """Beam size for the translations of the dev set. 1 is greedy search."""
    dev_metric: Metric | None = later(None)
    """Further metric of the dev set's translations, as in `evaluate.metrics`: TER, chrF++, spBLEU or a program. The
    program runs at each validation, for at most 1,200 seconds whatever its `max_seconds`, and training waits for it. If
    it fails, the log says why, and the validation does not count for `stop_on`. Do not judge the finished model by the
    same metric alone."""
    dev_samples: int = Field(3, ge=0, le=100)
    """Number of translations that each validation prints to the log."""
    profile_updates: int = Field(0, ge=0)
    """Number of updates to trace with PyTorch's profiler into `profile/`, starting with the eleventh update of each
    process. 0 means none."""

    @model_validator(mode="after")
    def _has_an_optimizer_to_keep(self) -> "TrainConfig":
        if self.start_optimizer == "kept" and not self.start_from:
            raise ValueError("start_optimizer=kept needs a checkpoint: set start_from to train/FINGERPRINT")
        return self

    @model_validator(mode="after")
    def _has_new_rows_for_a_while(self) -> "TrainConfig":
        if self.new_rows_first and not self.start_from:
            raise ValueError(
                f"new_rows_first={self.new_rows_first} needs a model whose other weights are trained: set start_from, "
                "or new_rows_first to 0"
            )
        if self.new_rows_first > self.max_updates:
            raise ValueError(
                f"new_rows_first={self.new_rows_first} is more than max_updates={self.max_updates}: lower the one or "
                "raise the other"
            )
        return self

    @model_validator(mode="after")
    def _micro_batches_fit(self) -> "TrainConfig":
        for option in ("max_tokens", "max_tokens_per_pass"):
            if self.micro_batch_tokens > getattr(self, option):
                raise ValueError(
                    f"micro_batch_tokens={self.micro_batch_tokens} is more than {option}={getattr(self, option)}: "
                    "lower the one or raise the other"
                )
        if self.int8_aware_from > self.max_updates:
            raise ValueError(
                f"int8_aware_from={self.int8_aware_from} is after the last update, max_updates={self.max_updates}: "
                "lower the one or raise the other"
            )
        if self.weight_decay and self.optimizer != "adamw":
            raise ValueError(
                f"weight_decay={self.weight_decay} needs adamw: set optimizer to adamw, or weight_decay to 0"
            )
        return self

    @model_validator(mode="after")
    def _has_the_scores_it_needs(self) -> "TrainConfig":
        if self.stop_on != "dev_loss" and not self.dev_sentences:
            raise ValueError(
                f"stop_on={self.stop_on} needs translations to score: set dev_sentences, for example to 500"
            )
        if self.dev_metric and not self.dev_sentences:
            raise ValueError(
                f"dev_metric={self.dev_metric.name} needs translations to score: set dev_sentences, for example to 500"
            )
        if self.stop_on == "dev_metric" and not self.dev_metric:
            raise ValueError("stop_on=dev_metric needs a metric: set dev_metric, for example to chrF++")
        if self.keep_best and self.checkpoint_every % self.validate_every:
            raise ValueError(
                f"keep_best={self.keep_best} needs a score of every checkpoint, but checkpoint_every="
                f"{self.checkpoint_every} is not a multiple of validate_every={self.validate_every}: change either"
            )
        return self

    @model_validator(mode="after")
    def _has_phases_that_end(self) -> "TrainConfig":
        if not self.curriculum:
            return self
        if self.patience:
            raise ValueError(
                f"patience={self.patience} does not apply to a curriculum: set the patience of its phases instead"
            )
        if twice := first_repeated(phase.name for phase in self.curriculum):
            raise ValueError(f"curriculum has two phases named {twice}: rename one")
        *earlier, last = self.curriculum
        for number, phase in enumerate(earlier):
            if not phase.updates and not phase.patience:
                raise ValueError(f"curriculum.{number}: phase {phase.name} never ends: set its updates or its patience")
        if last.updates:
            raise ValueError(
                f"curriculum.{len(earlier)}.updates={last.updates}: the last phase ends with max_updates="
                f"{self.max_updates}: remove updates from it"
            )
        if (begin := sum(phase.updates for phase in earlier)) >= self.max_updates:
            raise ValueError(
                f"curriculum: phase {last.name} would begin after {begin:,} updates, but max_updates="
                f"{self.max_updates}: raise max_updates, or shorten the phases"
            )
        return self
