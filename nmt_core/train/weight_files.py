"""Write the weights of checkpoints for averaging, and remove files when others are newer or better."""

from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
from torch import Tensor

from nmt_core.store.atomic import replacing
from nmt_core.train.weights import Label

_MOVING_AVERAGE = ".ema.safetensors"


class WeightFiles:
    """Folder of the weights of checkpoints. Only the first process writes.

    Args:
        folder: folder of the files. It is created with the first file.
        keep: number of last checkpoints whose weights are kept.
        keep_best: number of additional checkpoints that are kept: the ones with the lowest scores.
        label: metadata of the files. None writes none.
    """

    def __init__(self, folder: Path, keep: int, keep_best: int, label: Label | None) -> None:
        self._folder = folder
        self._keep = keep
        self._keep_best = keep_best
        self._metadata = label.metadata() if label else None

    def write(self, name: str, weights: dict[str, Tensor], averaged: dict[str, Tensor] | None) -> Exception | None:
        """Write the weights of a checkpoint and their moving average. Return the error if a file cannot be written."""
        files = {f"{name}.safetensors": weights} | ({f"{name}{_MOVING_AVERAGE}": averaged} if averaged else {})
        for file, tensors in ((self._folder / filename, files[filename]) for filename in files):
            try:
                file.parent.mkdir(exist_ok=True)
                with replacing(file) as draft:
                    safetensors.torch.save_file(tensors, draft, self._metadata)
            except Exception as error:  # safetensors wraps errors of the system in its own
                return error
        return None

    def remove(self, name: str) -> None:
        """Remove the files of a checkpoint."""
        for file in self._folder.glob(f"{name}.*"):
            file.unlink()

    def remove_old(self, scores: Mapping[str, float]) -> None:
        """Remove weights that are neither among the last nor among the best, and all moving averages except the last.

        Args:
            scores: value of each validation by update. Lower is better.
        """
        averages = sorted(self._folder.glob(f"*{_MOVING_AVERAGE}"))
        weights = sorted(set(self._folder.glob("*.safetensors")) - set(averages))
        for file in (*set(weights[: -self._keep]) - self._best(weights, scores), *averages[:-1]):
            file.unlink()

    def _best(self, weights: list[Path], scores: Mapping[str, float]) -> set[Path]:
        """Return the best of the existing files. Of equal scores, the later checkpoint is better."""
        scored = [file for file in weights if str(int(file.stem)) in scores]
        ranked = sorted(scored, key=lambda file: (scores[str(int(file.stem))], -int(file.stem)))
        return set(ranked[: self._keep_best])
