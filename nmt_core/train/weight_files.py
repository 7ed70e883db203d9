"""Files of the weights of a training run: written for averaging, and removed when others are newer or better."""

from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
from torch import Tensor

from nmt_core.train.weights import Label

_MOVING_AVERAGE = ".ema.safetensors"


class WeightFiles:
    """The folder of these files. The first process has one.

    Args:
        folder: of the files; it is made with the first of them.
        keep: last checkpoints whose weights are kept.
        keep_best: further ones that are kept: those with the least scores.
        label: what the files say of themselves; None: nothing.
    """

    def __init__(self, folder: Path, keep: int, keep_best: int, label: Label | None) -> None:
        self._folder = folder
        self._keep = keep
        self._keep_best = keep_best
        self._metadata = label.metadata() if label else None

    def write(self, name: str, weights: dict[str, Tensor], averaged: dict[str, Tensor] | None) -> Exception | None:
        """Write the weights of a checkpoint and their moving average; what kept either from being written."""
        files = {f"{name}.safetensors": weights} | ({f"{name}{_MOVING_AVERAGE}": averaged} if averaged else {})
        for file, tensors in ((self._folder / each, files[each]) for each in files):
            draft = file.with_suffix(".tmp")
            try:
                file.parent.mkdir(exist_ok=True)
                safetensors.torch.save_file(tensors, draft, self._metadata)
                draft.replace(file)
            except Exception as error:  # safetensors has errors of its own for what the system says
                draft.unlink(missing_ok=True)
                return error
        return None

    def remove(self, name: str) -> None:
        """Remove the files of a checkpoint."""
        for file in self._folder.glob(f"{name}.*"):
            file.unlink()

    def remove_old(self, scores: Mapping[str, float]) -> None:
        """Remove what is neither among the last nor among the best, and all moving averages but the last.

        Args:
            scores: value of each validation by update.
        """
        averages = sorted(self._folder.glob(f"*{_MOVING_AVERAGE}"))
        weights = sorted(set(self._folder.glob("*.safetensors")) - set(averages))
        for file in (*set(weights[: -self._keep]) - self._best(weights, scores), *averages[:-1]):
            file.unlink()

    def _best(self, weights: list[Path], scores: Mapping[str, float]) -> set[Path]:
        """Of those that are there: a checkpoint that found no room is none. Of equal ones the later is the better."""
        scored = [file for file in weights if str(int(file.stem)) in scores]
        ranked = sorted(scored, key=lambda file: (scores[str(int(file.stem))], -int(file.stem)))
        return set(ranked[: self._keep_best])
