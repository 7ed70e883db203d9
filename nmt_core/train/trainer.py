"""The loop: batches in the planned order, updates, validations, checkpoints.

What an update computes depends on the configuration and on its number alone: not on the number of processes, nor on
how often training was stopped and taken up again.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nmt_core.batches.loader import Loader, Pass, Share, Update
from nmt_core.batches.plan import Plan
from nmt_core.batches.shards import TokenPairs, TokenShards
from nmt_core.config import TrainConfig
from nmt_core.errors import StageError
from nmt_core.models.transformer import Transformer
from nmt_core.train.checkpoint import Checkpoints
from nmt_core.train.distributed import World
from nmt_core.train.optimizer import learning_rate, make_optimizer
from nmt_core.train.parallel import Parallel
from nmt_core.train.validate import dev_loss

LOG_EVERY = 25
"""Updates between two points of the curves."""

Emit = Callable[[Mapping[str, float]], None]
"""Takes a point of the curves: `update` and values by name."""


@dataclass
class Window:
    """Sums since the last point of the curves."""

    plain_loss: Tensor | float = 0.0
    """A tensor, so that a GPU need not be waited for before the window ends."""
    target_tokens: float = 0.0
    tokens: float = 0.0
    padded_tokens: float = 0.0
    gradient_norm: Tensor | float = 0.0
    """Of the last update, before clipping."""
    start: float = field(default_factory=time.monotonic)

    def add(self, done: Pass, plain_loss: Tensor) -> None:
        """Count one forward pass."""
        self.plain_loss = self.plain_loss + plain_loss.double()
        self.target_tokens += done.target_tokens
        self.tokens += done.source_tokens + done.target_tokens
        self.padded_tokens += done.batch.computed_tokens

    def sums(self, world: World) -> list[float]:
        """Loss, target tokens, tokens, and tokens with padding, over all processes."""
        return world.sum(float(self.plain_loss), self.target_tokens, self.tokens, self.padded_tokens)


class Trainer:
    """Trains one model on one set of pairs. Every process has one, and all do the same in step."""

    def __init__(self, model: Transformer, config: TrainConfig, world: World, folder: Path) -> None:
        self._parallel = Parallel(model, config, world)
        self._model = self._parallel.model
        self._config = config
        self._world = world
        self._optimizer = make_optimizer(self._model, config)
        self._checkpoints = Checkpoints(folder, config.keep_checkpoints)
        self.progress = self._checkpoints.load_newest(self._model, self._optimizer)
        self._window = Window(*self.progress.window) if world.is_first else Window()

    def fit(self, train: TokenShards, dev: TokenPairs, emit: Emit, should_stop: Callable[[], bool]) -> bool:
        """Train to the end; False if `should_stop` asked for a stop, after a checkpoint.

        Raises:
            StageError: the loss is not a number.
            DataError: a shard is damaged.
        """
        config, world = self._config, self._world
        if self._is_done():
            return True
        with self._loader(train) as loader:
            for batch in loader:
                self._update(batch)
                self._advance(batch)
                update = self.progress.update
                if is_due := update % LOG_EVERY == 0 or update == config.max_updates:
                    self._report(emit)
                if update % config.validate_every == 0 or update == config.max_updates:
                    self._validate(dev, emit)
                if self._is_done() and not is_due:  # patience has ended between two points of the curves
                    self._report(emit)
                stop = world.any(should_stop())
                if update % config.checkpoint_every == 0 or stop or self._is_done():
                    self.progress.window = self._window.sums(world)
                    self._checkpoints.save(self._model, self._optimizer, self.progress, world)
                if self._is_done():
                    break
                if stop:
                    return False
        if world.is_first:
            self._checkpoints.finish()
        return True

    def _loader(self, train: TokenShards) -> Loader:
        """From where progress stands."""
        config, world = self._config, self._world
        plan = Plan(
            train,
            config.batching,
            slice_tokens=config.slice_tokens,
            max_tokens=config.max_tokens,
            seed=config.seed,
        )
        share = Share(world.rank, world.size, config.max_tokens_per_pass)
        return Loader(train, plan, config.batching, share, (self.progress.epoch, self.progress.batch))

    def _is_done(self) -> bool:
        out_of_patience = 0 < self._config.patience <= self.progress.validations_since_best
        return self.progress.update >= self._config.max_updates or out_of_patience

    def _advance(self, done: Update) -> None:
        self.progress.update += 1
        self.progress.epoch, self.progress.batch = done.epoch, done.number + 1

    def _update(self, update: Update) -> None:
        """One update of the weights; its gradient is the mean over its target tokens."""
        config, world = self._config, self._world
        number = self.progress.update + 1
        # Dropout is a function of (seed, update, rank), so a resumed run draws what the undisturbed one drew.
        torch.manual_seed(
            int(np.random.SeedSequence([config.seed, number, world.rank]).generate_state(1, np.uint64)[0])
        )
        for index, each in enumerate(update.passes):
            weight = world.size / update.target_tokens if each.target_tokens else 0.0
            is_last = index == len(update.passes) - 1
            plain = self._parallel.backward(each.batch.to(world.device), weight, is_last=is_last)
            if each.target_tokens:
                self._window.add(each, plain)
        self._step(number)

    def _step(self, number: int) -> None:
        rate = learning_rate(number, self._config, self._model.config.d_model)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._window.gradient_norm = self._parallel.clip(self._config.max_gradient_norm)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)

    def _report(self, emit: Emit) -> None:
        plain_loss, target_tokens, tokens, padded_tokens = self._window.sums(self._world)
        if not np.isfinite(plain_loss):
            raise StageError(
                f"train: the loss is {plain_loss} at update {self.progress.update}: training has diverged; lower "
                f"train.learning_rate_scale={self._config.learning_rate_scale} or raise train.warmup_updates="
                f"{self._config.warmup_updates}"
            )
        emit(
            {
                "update": self.progress.update,
                "epoch": self.progress.epoch,
                "train_loss": plain_loss / target_tokens,
                "learning_rate": learning_rate(self.progress.update, self._config, self._model.config.d_model),
                "target_tokens": target_tokens,
                "target_tokens_per_second": target_tokens / max(1e-9, time.monotonic() - self._window.start),
                "useful_token_share": tokens / padded_tokens,
                "gradient_norm": float(self._window.gradient_norm),
            }
        )
        self._window = Window()

    def _validate(self, dev: TokenPairs, emit: Emit) -> None:
        began = time.monotonic()
        loss = dev_loss(self._model, dev, self._config, self._world)
        if loss < self.progress.best_dev_loss:
            self.progress.best_dev_loss, self.progress.validations_since_best = loss, 0
        else:
            self.progress.validations_since_best += 1
        emit({"update": self.progress.update, "dev_loss": loss, "best_dev_loss": self.progress.best_dev_loss})
        self._window.start += time.monotonic() - began  # the speed is that of training alone
