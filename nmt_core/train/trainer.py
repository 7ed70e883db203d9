"""The loop: batches in the planned order, updates, validations, checkpoints.

What an update computes depends on the configuration and on its number alone: not on the number of processes, nor on
how often training was stopped and taken up again.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from nmt_core.batches.collate import Batch, collate
from nmt_core.batches.plan import cut_to_passes, plan_epoch, share_of_rank
from nmt_core.batches.shards import TokenPairs
from nmt_core.config import TrainConfig
from nmt_core.errors import StageError
from nmt_core.models.loss import smoothed_cross_entropy
from nmt_core.models.transformer import Transformer
from nmt_core.tokenizer.tokenizer import PAD_ID
from nmt_core.train.checkpoint import Checkpoints
from nmt_core.train.distributed import World
from nmt_core.train.optimizer import learning_rate, make_optimizer
from nmt_core.train.precision import autocast, compute_dtype
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
    start: float = field(default_factory=time.monotonic)

    def add(self, train: TokenPairs, rows: np.ndarray, batch: Batch, plain_loss: Tensor) -> None:
        """Count one forward pass."""
        source_tokens, target_tokens = train.source.lengths[rows].sum(), train.target.lengths[rows].sum()
        self.plain_loss = self.plain_loss + plain_loss.double()
        self.target_tokens += int(target_tokens)
        self.tokens += int(source_tokens + target_tokens)
        self.padded_tokens += batch.source_BS.numel() + batch.target_BT.numel()

    def sums(self, world: World) -> list[float]:
        """Loss, target tokens, tokens, and tokens with padding, over all processes."""
        return world.sum(float(self.plain_loss), self.target_tokens, self.tokens, self.padded_tokens)


class Trainer:
    """Trains one model on one set of pairs. Every process has one, and all do the same in step."""

    def __init__(self, model: Transformer, config: TrainConfig, world: World, folder: Path) -> None:
        self._model = model.to(world.device)
        self._config = config
        self._world = world
        self._dtype = compute_dtype(config.precision, world.device)
        self._parallel: nn.Module = DistributedDataParallel(self._model) if world.size > 1 else self._model
        self._optimizer = make_optimizer(self._model, config)
        self._checkpoints = Checkpoints(folder, config.keep_checkpoints)
        self.progress = self._checkpoints.load_newest(self._model, self._optimizer)
        self._window = Window(*self.progress.window) if world.is_first else Window()

    def fit(self, train: TokenPairs, dev: TokenPairs, emit: Emit, should_stop: Callable[[], bool]) -> bool:
        """Train to the end; False if `should_stop` asked for a stop, after a checkpoint.

        Raises:
            StageError: the loss is not a number.
        """
        config, world = self._config, self._world
        for rows in self._batches(train):
            if self._is_done():
                break
            self._update(train, rows)
            self._advance()
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
            if stop and not self._is_done():
                return False
        if world.is_first:
            self._checkpoints.finish()
        return True

    def _is_done(self) -> bool:
        out_of_patience = 0 < self._config.patience <= self.progress.validations_since_best
        return self.progress.update >= self._config.max_updates or out_of_patience

    def _batches(self, train: TokenPairs) -> Iterator[np.ndarray]:
        """Rows of each batch, from where progress stands, for ever."""
        lengths_N2 = np.stack([train.source.lengths, train.target.lengths], axis=1)
        for epoch in itertools.count(self.progress.epoch):
            plan = plan_epoch(lengths_N2, self._config.max_tokens, self._config.seed, epoch)
            self.progress.epoch, first = epoch, self.progress.batch
            yield from plan[first:]
            self.progress.batch = 0

    def _advance(self) -> None:
        self.progress.update += 1
        self.progress.batch += 1

    def _update(self, train: TokenPairs, rows: np.ndarray) -> None:
        """One update of the weights from one batch; its gradient is the mean over the batch's target tokens."""
        config, world = self._config, self._world
        number = self.progress.update + 1
        # Dropout is a function of (seed, update, rank), so a resumed run draws what the undisturbed one drew.
        torch.manual_seed(
            int(np.random.SeedSequence([config.seed, number, world.rank]).generate_state(1, np.uint64)[0])
        )
        longest = int(max(train.source.lengths[rows].max(), train.target.lengths[rows].max()))
        # DDP takes the mean of the ranks' gradients; the sum over the batch's tokens, divided by them, is wanted.
        weight = world.size / int(train.target.lengths[rows].sum())
        share = share_of_rank(rows, world.rank, world.size)
        if not len(share):  # fewer rows than ranks: gradients are exchanged all the same, and this one's is nothing
            share, weight = rows[:1], 0.0
        passes = cut_to_passes(share, longest, config.max_tokens_per_pass)
        for index, pass_rows in enumerate(passes):
            batch = collate(train, pass_rows).to(world.device)
            with self._no_sync(last=index == len(passes) - 1):
                smoothed, plain = self._loss(batch)
                torch.autograd.backward(smoothed * weight)
            if weight:
                self._window.add(train, pass_rows, batch, plain)
        self._step(number)

    def _step(self, number: int) -> None:
        rate = learning_rate(number, self._config, self._model.config.d_model)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        if self._config.max_gradient_norm:
            nn.utils.clip_grad_norm_(self._model.parameters(), self._config.max_gradient_norm)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)

    def _loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Sums over the target tokens of a pass: smoothed and plain loss in nats."""
        with autocast(self._dtype, self._world.device):
            states_BTM = self._parallel(batch.source_BS, batch.decoder_input_BT)
        real_BT = batch.target_BT != PAD_ID
        states_NM = states_BTM[real_BT].to(self._dtype)
        return smoothed_cross_entropy(
            states_NM, self._model.output.weight, batch.target_BT[real_BT], self._config.label_smoothing
        )

    def _no_sync(self, last: bool) -> AbstractContextManager[None]:
        """Gradients travel between the ranks once an update, with the last pass."""
        if isinstance(self._parallel, DistributedDataParallel) and not last:
            context: AbstractContextManager[None] = self._parallel.no_sync()
            return context
        return nullcontext()

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
                "target_tokens_per_second": target_tokens / max(1e-9, time.monotonic() - self._window.start),
                "useful_token_share": tokens / padded_tokens,
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
