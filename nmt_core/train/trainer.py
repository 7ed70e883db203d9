"""Run the training loop: batches in the planned order, updates, validations, checkpoints.

The result of an update depends only on the configuration and on its number. It does not depend on how often training
was stopped and resumed. Without dropout, it does not depend on the number of processes either, except for rounding.
"""

import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from nmt_core.batches.loader import Loader, Share, Update
from nmt_core.batches.plan import Plan
from nmt_core.batches.shards import TokenShards
from nmt_core.config import TrainConfig
from nmt_core.errors import StageError, counted
from nmt_core.models.model import TranslationModel
from nmt_core.train.checkpoint import Checkpoints, Training
from nmt_core.train.curriculum import (
    begin_next_phase,
    current_phase,
    phase_is_over,
    require_text,
    stay_in_phase,
    training_is_over,
    write_phases,
)
from nmt_core.train.curves import LOG_EVERY as LOG_EVERY
from nmt_core.train.curves import Listener
from nmt_core.train.device import missing_bf16, peak_matmul_flops, training_flop
from nmt_core.train.distributed import World
from nmt_core.train.int8_aware import Int8Weights
from nmt_core.train.moving_average import MovingAverage
from nmt_core.train.new_rows import NewRows, load_extended
from nmt_core.train.optimizer import make_optimizer
from nmt_core.train.outcome import Outcomes, Problem, look_at
from nmt_core.train.parallel import Parallel
from nmt_core.train.progress import watched
from nmt_core.train.schedule import learning_rate
from nmt_core.train.sharing import imbalance_warning
from nmt_core.train.start import Start
from nmt_core.train.validate import DevSet, dev_loss
from nmt_core.train.watchdog import INCIDENTS, Incidents
from nmt_core.train.window import Window

_PAIRS_NAMED = 5


class Trainer:
    """Trainer of one model on one set of pairs. Every process has an instance, and all work in step.

    Args:
        model: model, equal in every process.
        config: options of the training.
        world: the processes.
        folder: folder of the run. Training resumes from its newest complete checkpoint.
        listener: receives points of the curves and messages.
        start: start of a training without checkpoints. The default starts from the weights that the model has.
    """

    def __init__(
        self,
        model: TranslationModel,
        config: TrainConfig,
        world: World,
        folder: Path,
        listener: Listener,
        start: Start = Start(),  # noqa: B008  # it is frozen
    ) -> None:
        self._checkpoints = Checkpoints(
            folder, config.keep_checkpoints, world, listener.say, config.keep_best, start.label
        )
        is_new = self._checkpoints.newest < 0
        if is_new and start.weights:
            if start.extensions:
                load_extended(model, start.weights, start.extensions, config.seed)
            else:
                safetensors.torch.load_model(model, start.weights)
        self._parallel = Parallel(model, config, world)
        self._model = self._parallel.model
        self._config = config
        self._world = world
        self._folder = folder
        self._listener = listener
        self._incidents = Incidents(folder if world.is_first else None, listener.say)
        self._gone_back_to = -1
        self._continued = start.continued
        self._int8_weights = Int8Weights(self._model) if config.int8_aware_from else None
        self._new_rows = NewRows(self._model, start.extensions)
        self._optimizer = make_optimizer(self._model, config)
        average = MovingAverage(self._parallel.parameters(), config.ema_decay) if config.ema_decay else None
        self._training = Training(self._parallel, self._optimizer, average)
        self._outcomes = Outcomes(world)
        self._peak_matmul_flops = world.sum(peak_matmul_flops(world.device, self._parallel.dtype))[0]
        self._seconds_waited = 0.0
        self._take_up()
        if is_new and start.checkpoint:
            self._checkpoints.take_over_moments(self._training, start.checkpoint)

    def fit(self, train: TokenShards, dev: DevSet, should_stop: Callable[[], bool]) -> bool:
        """Train to the end.

        Args:
            train: pairs to train on.
            dev: pairs to validate on.
            should_stop: returns True to request a stop. Called once an update.

        Returns:
            True at the end, False if training stopped with a checkpoint because of `should_stop`.

        Raises:
            StageError: training diverged too often, no checkpoint can be written, or a phase has no text.
            DataError: a shard is damaged.
        """
        require_text(self._config, train)
        idle = imbalance_warning(self._config, self._world.size)
        for slow in (idle, missing_bf16(self._config.precision, self._world.device)):
            if slow:
                self._listener.say(slow)
        if self._checkpoints.newest < 0:  # to go back to, and to show early that checkpoints can be written and read
            self._checkpoints.save_first(self._training, self.progress)
        while not self._is_done():
            self._enter_phase()
            with self._loader(train) as loader:
                for update in loader:
                    self._seconds_waited = loader.seconds_waited
                    self._update(update, should_stop())
                    stop, problem = self._look_back()
                    if problem:
                        self._go_back(problem, train)
                        break
                    self._after_update(dev, stop)
                    if stop and not self._is_done():
                        self._checkpoints.wait()
                        return False
                    if self._is_done() or phase_is_over(self._config, self.progress):
                        break
        self._checkpoints.finish(self.progress.update)
        return True

    @property
    def saved_update(self) -> int:
        """Update of the checkpoint that another attempt would resume from, or -1 if there is none."""
        return self._checkpoints.newest

    def _take_up(self) -> None:
        """Resume from the newest checkpoint."""
        self.progress = self._checkpoints.load_newest(self._training)
        if self._continued:
            self._continued.correct(self.progress)
        self._window = Window(first_update=self.progress.update)
        if self._world.is_first:
            self._window.restore(self.progress.window)
        self._listener.go_back(self.progress.update)

    def _enter_phase(self) -> None:
        """Begin the next phase of the curriculum if the current one is over."""
        config, progress = self._config, self.progress
        if phase_is_over(config, progress):
            begin_next_phase(progress)
            phase, number = current_phase(config, progress), len(progress.phases_began)
            self._listener.say(
                f"phase {number} of {len(config.curriculum)} of the curriculum begins after update "
                f"{progress.update:,}: {phase.name}"
            )
        if self._world.is_first:
            write_phases(self._folder, config, progress)

    def _loader(self, train: TokenShards) -> Loader:
        """Return a loader of the batches that follow the progress."""
        config, world = self._config, self._world
        plan = Plan(
            train,
            config.batching,
            micro_batch_tokens=config.micro_batch_tokens,
            max_tokens=config.max_tokens,
            seed=config.seed,
            corpora=current_phase(config, self.progress).corpora,
        )
        share = Share(world.rank, world.size, config.max_tokens_per_pass, is_pinned=world.device.type == "cuda")
        return Loader(train, plan, config.batching, share, (self.progress.epoch, self.progress.batch))

    def _is_done(self) -> bool:
        return training_is_over(self._config, self.progress)

    def _update(self, update: Update, stop: bool) -> None:
        """Run one update of the weights. Its gradient is the mean over its target tokens."""
        config, world, progress, int8 = self._config, self._world, self.progress, self._int8_weights
        number = progress.update + 1
        # Dropout is a function of (seed, update, rank), so a resumed run draws the same values.
        torch.manual_seed(
            int(np.random.SeedSequence([config.seed, number, world.rank]).generate_state(1, np.uint64)[0])
        )
        summed: Tensor | float = 0.0
        with int8.in_place() if int8 and number >= config.int8_aware_from else nullcontext():
            for index, one in enumerate(update.passes):
                weight = world.size / update.target_tokens if one.target_tokens else 0.0
                is_last = index == len(update.passes) - 1
                plain = self._parallel.backward(one.batch.to(world.device), weight, is_last=is_last)
                if one.target_tokens:
                    self._window.add(one, plain)
                    summed = summed + plain.double()
        norm = self._step(number)
        progress.update, progress.epoch, progress.batch = number, update.epoch, update.number + 1
        is_written = self._checkpoints.is_written
        self._outcomes.add(number, update, summed, norm, stop=stop, is_written=is_written)

    def _look_back(self) -> tuple[bool, Problem | None]:
        """Check the updates whose outcome is known by now, and all updates before anything is saved or reported.

        Returns:
            True if any process was requested to stop, and the problem of an update, if there is one.
        """
        stop, problem = self._look_at_known(wait=self._is_due())
        if stop and not problem:
            _, problem = self._look_at_known(wait=True)
        return stop, problem

    def _look_at_known(self, *, wait: bool) -> tuple[bool, Problem | None]:
        config, losses, stop = self._config, self.progress.losses, False
        for outcome in self._outcomes.known(wait=wait):
            stop = stop or outcome.stopping > 0
            if outcome.written == self._world.size:
                self._checkpoints.wait()
            if problem := look_at(outcome, losses, config.spike_window, config.spike_deviations):
                return stop, problem
        return stop, None

    def _is_due(self) -> bool:
        """Return True if a report, a validation, a checkpoint or another phase is due after this update."""
        config, update = self._config, self.progress.update
        is_end = self._is_done() or phase_is_over(config, self.progress)
        return is_end or any(
            update % every == 0 for every in (LOG_EVERY, config.validate_every, config.checkpoint_every)
        )

    def _step(self, number: int) -> Tensor:
        """Change the weights, and return the norm of the gradient before clipping."""
        only_new_rows = number <= self._config.new_rows_first
        if only_new_rows:
            self._new_rows.keep_only_their_gradients()
        for group in self._optimizer.param_groups:
            group["lr"] = self._learning_rate(number)
            group["weight_decay"] = 0.0 if only_new_rows else self._config.weight_decay  # it moves older rows too
        norm = self._window.gradient_norm = self._parallel.clip(self._config.max_gradient_norm)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        if self._training.moving_average:
            self._training.moving_average.update(number)
        return norm

    def _learning_rate(self, number: int) -> float:
        """Return the scheduled learning rate, halved for each rollback after the first."""
        halved = 0.5 ** max(0, self.progress.rollbacks - 1)
        return learning_rate(number, self._config, self._model.config.d_model) * halved

    def _go_back(self, problem: Problem, train: TokenShards) -> None:
        """Go back to the last checkpoint, and skip the data up to the problem.

        If training already went back to this checkpoint, discard it and use the one before.

        Raises:
            StageError: training has already gone back `max_rollbacks` times.
        """
        config, seen, update = self._config, self.progress, problem.outcome.update
        self._outcomes.forget()
        pairs = [origin for batch in update.micro_batches for origin in train.origins(batch.block.groups, batch.rows)]
        number = problem.outcome.number
        what = f"{problem.what} at update {number:,} (update {update.number:,} of epoch {update.epoch})"
        incident = {"update": number, "epoch": update.epoch, "number": update.number, "problem": problem.what}
        first = ", ".join(pairs[:_PAIRS_NAMED])
        named = f"the first of its {counted(len(pairs), 'pair')}, all listed in {self._folder / INCIDENTS}: {first}"
        if seen.rollbacks >= config.max_rollbacks:
            self._incidents.note(incident | {"back_to": None, "pairs": pairs})
            raise StageError(
                f"{what}: training has diverged, and has gone back {counted(seen.rollbacks, 'time')}: lower "
                f"train.learning_rate_scale={config.learning_rate_scale}, raise train.warmup_updates="
                f"{config.warmup_updates}, or check the text ({named})"
            )
        self._checkpoints.wait()
        if self._checkpoints.newest == self._gone_back_to:  # it was perhaps saved after training went wrong
            self._checkpoints.discard_newest()
        self._take_up()
        stay_in_phase(self.progress, seen)
        back_to = self._gone_back_to = self.progress.update
        self._incidents.note(incident | {"back_to": back_to, "pairs": pairs})
        self.progress.epoch, self.progress.batch = update.epoch, update.number + 1
        self.progress.rollbacks = seen.rollbacks + 1
        self._listener.say(
            f"{what}: back to the checkpoint of update {back_to:,}, to continue with the data after the problem, at "
            f"{0.5 ** max(0, self.progress.rollbacks - 1):g} of the learning rate; updates lost: "
            f"{seen.update - back_to:,}; {named}"
        )

    def _after_update(self, dev: DevSet, stop: bool) -> None:
        """Report, validate and save, as far as each is due."""
        config, update = self._config, self.progress.update
        if update % LOG_EVERY == 0:
            self._report()
        if update % config.validate_every == 0 or update == config.max_updates:
            self._validate(dev)
        is_regular = update % config.checkpoint_every == 0 or self._is_done()
        if is_regular or stop:
            self.progress.window = self._window.sums(self._world)
        if self._is_done() and update % LOG_EVERY:  # after the sums are saved: a longer training resumes from them
            self._report()
        if is_regular or stop:
            self._checkpoints.save(self._training, self.progress, with_weights=is_regular)

    def _report(self) -> None:
        self._incidents.try_again()
        update, window = self.progress.update, self._window
        plain_loss, target_tokens, tokens, padded_tokens = window.sums(self._world)
        seconds = max(1e-9, time.monotonic() - window.start)
        seconds_of_one = seconds / max(1, update - window.first_update)
        flop = training_flop(self._model, tokens - target_tokens, target_tokens)
        self._listener.point(
            {
                "update": update,
                "epoch": self.progress.epoch,
                "train_loss": plain_loss / target_tokens,
                "learning_rate": self._learning_rate(update),
                "gradient_norm": float(window.gradient_norm),
                "target_tokens": target_tokens,
                "target_tokens_per_second": target_tokens / seconds,
                "useful_token_share": tokens / padded_tokens,
                "floating_point_operations": flop,
                "model_flop_utilisation": flop / seconds / self._peak_matmul_flops,
                "data_wait_share": max(0.0, self._seconds_waited - window.waited_before) / seconds,
                "memory_bytes": self._world.peak_memory(),
                "seconds_left": seconds_of_one * (self._config.max_updates - update),
            }
        )
        self._window = Window(first_update=update, waited_before=self._seconds_waited)

    def _validate(self, dev: DevSet) -> None:
        began, config, progress, model = time.monotonic(), self._config, self.progress, self._parallel.plain_model()
        with self._parallel.eager():
            loss = dev_loss(model, dev.pairs, config.micro_batch_tokens, self._world)
            scores = dev.translator.scores(model, self._listener.say) if dev.translator else {}
        progress.best_dev_loss = min(progress.best_dev_loss, loss)
        values = {"update": progress.update, "dev_loss": loss, "best_dev_loss": progress.best_dev_loss} | scores
        value = watched(config, values)
        if value is not None:
            progress.count_validation(value, remember=config.keep_best > 0)
        self._listener.point(values)
        self._window.start += time.monotonic() - began  # the reported speed leaves out validations
