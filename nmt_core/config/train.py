"""`train`: optimisation, validation and checkpoints."""

from typing import Literal

from pydantic import Field, model_validator

from nmt_core.config.section import Section


class TrainConfig(Section):
    """Optimisation. The number of processes changes the speed, never the result."""

    start_from: str = ""
    """What training starts from: a registered model (`models:/NAME@ALIAS` or `models:/NAME/VERSION`), an artifact
    (`average/FINGERPRINT` or `train/FINGERPRINT`), its folder, or a .safetensors file; empty: random weights. Its
    vocabulary and its `model` must be those of this recipe."""
    start_optimizer: Literal["fresh", "kept"] = "fresh"
    """Adam's moments at the start: none, or those of the last checkpoint of a `train/FINGERPRINT`. Learning rate, order
    of the data and count of updates start anew in both cases."""
    seed: int = Field(1, ge=0)
    """Seed of the weights, of dropout and of the order of the data."""
    max_updates: int = Field(100_000, ge=1)
    """Updates of the weights in all."""
    batching: Literal["padded", "packed"] = "padded"
    """Pairs of like length padded to one length (for CPUs), or of any length packed into streams (for GPUs)."""
    max_tokens: int = Field(25_000, ge=64)
    """Tokens per update over all processes: no more than this many on either side, padding included."""
    micro_batch_tokens: int = Field(2_048, ge=64)
    """Tokens of a micro-batch on either side, padding included. An update has as many micro-batches as fit, which
    processes share."""
    max_tokens_per_pass: int = Field(25_000, ge=64)
    """Packed micro-batches of a process are joined up to this many tokens, computed together; more take more memory."""
    warmup_updates: int = Field(4_000, ge=1)
    """Updates over which the learning rate rises (section 5.3)."""
    learning_rate_schedule: Literal["inverse_sqrt", "constant"] = "inverse_sqrt"
    """Rising over `warmup_updates` and falling from there (section 5.3), or always `learning_rate_scale`."""
    learning_rate_scale: float = Field(1.0, gt=0)
    """Factor on d_model^-0.5 * min(update^-0.5, update * warmup_updates^-1.5) (section 5.3); of a constant rate, the
    rate itself."""
    optimizer: Literal["adam", "adamw", "adadelta"] = "adam"
    """Adam as published, or with decoupled weight decay (Loshchilov and Hutter 2019); or Adadelta (Zeiler 2012), whose
    learning rate is usually a constant 1."""
    weight_decay: float = Field(0.0, ge=0)
    """Share of each weight that adamw takes off per update, times the learning rate."""
    adam_beta1: float = Field(0.9, ge=0, lt=1)
    """Decay of Adam's first moment."""
    adam_beta2: float = Field(0.98, ge=0, lt=1)
    """Decay of Adam's second moment."""
    adam_epsilon: float = Field(1e-9, gt=0)
    """Adam's epsilon."""
    adadelta_rho: float = Field(0.95, ge=0, lt=1)
    """Decay of Adadelta's two moments."""
    adadelta_epsilon: float = Field(1e-6, gt=0)
    """Adadelta's epsilon."""
    label_smoothing: float = Field(0.1, ge=0, lt=1)
    """Probability mass that is spread over the whole vocabulary (section 5.4)."""
    max_gradient_norm: float = Field(0.0, ge=0)
    """Clip the gradient to this norm; 0: never."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Arithmetic of the matrix products (the rest is fp32); auto: bf16 where the hardware has it, else fp32."""
    parallel: Literal["ddp", "fsdp", "hsdp"] = "ddp"
    """Every process has all weights, a shard of them, or a shard in its group of `shard_size` processes."""
    shard_size: int = Field(0, ge=0)
    """Processes of a group that shares one copy of the weights, for hsdp; 0: those of a node."""
    activation_checkpointing: bool = False
    """Compute each layer's activations twice in place of keeping them: a third more time, far less memory."""
    compile_layers: bool = True
    """Compile each layer with torch.compile, on GPUs."""
    ema_decay: float = Field(0.0, ge=0, lt=1)
    """Keep an exponential moving average of the weights, of which an update leaves this share; 0: none."""
    validate_every: int = Field(1_000, ge=1)
    """Updates between two validations on the dev set."""
    checkpoint_every: int = Field(1_000, ge=1)
    """Updates between two checkpoints."""
    keep_checkpoints: int = Field(5, ge=1)
    """Last checkpoints whose weights are kept."""
    keep_best: int = Field(0, ge=0)
    """Checkpoints with the best `stop_on` whose weights are kept beside the last `keep_checkpoints`."""
    spike_deviations: float = Field(10.0, ge=0)
    """Go back if an update's loss is this many standard deviations above the mean of those before; 0: never."""
    spike_window: int = Field(200, ge=10)
    """Updates that mean and deviation are taken of."""
    max_rollbacks: int = Field(3, ge=0)
    """How often to go back to the last checkpoint, after a loss too high or no number, before giving up."""
    patience: int = Field(0, ge=0)
    """Validations without a better `stop_on` after which training stops; 0: never."""
    stop_on: Literal["dev_loss", "bleu", "chrf"] = "dev_loss"
    """What has to improve on the dev set for `patience`, and what the checkpoints of `keep_best` are best in."""
    dev_sentences: int = Field(0, ge=0)
    """Sentences of the dev set, at even distances, that each validation translates and scores; 0: none."""
    dev_beam_size: int = Field(1, ge=1, le=64)
    """Beam size of these translations; 1 is greedy search."""
    dev_samples: int = Field(3, ge=0, le=100)
    """Translations that each validation shows in the log."""
    profile_updates: int = Field(0, ge=0)
    """Updates to trace with PyTorch's profiler, from the eleventh of each process on, into `profile/`; 0: none."""

    @model_validator(mode="after")
    def _has_an_optimizer_to_keep(self) -> "TrainConfig":
        if self.start_optimizer == "kept" and not self.start_from:
            raise ValueError("start_optimizer=kept needs something to start from: set start_from to train/FINGERPRINT")
        return self

    @model_validator(mode="after")
    def _slices_fit(self) -> "TrainConfig":
        for knob in ("max_tokens", "max_tokens_per_pass"):
            if self.micro_batch_tokens > getattr(self, knob):
                raise ValueError(
                    f"micro_batch_tokens={self.micro_batch_tokens} is more than {knob}={getattr(self, knob)}: "
                    "lower the one or raise the other"
                )
        if self.weight_decay and self.optimizer != "adamw":
            raise ValueError(f"weight_decay={self.weight_decay} is for adamw: set optimizer to adamw, or leave it 0")
        return self

    @model_validator(mode="after")
    def _has_the_scores_it_needs(self) -> "TrainConfig":
        if self.stop_on != "dev_loss" and not self.dev_sentences:
            raise ValueError(f"stop_on={self.stop_on} needs translations to score: set dev_sentences, as to 500")
        if self.keep_best and self.checkpoint_every % self.validate_every:
            raise ValueError(
                f"keep_best={self.keep_best} needs a score of every checkpoint, but checkpoint_every="
                f"{self.checkpoint_every} is no multiple of validate_every={self.validate_every}: change either"
            )
        return self
