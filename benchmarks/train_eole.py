"""Run eole's side of `train.py`, by an interpreter that has eole and nothing of this project.

It trains through eole's own `train`, on text whose words are piece numbers. Time and tokens come from its own reports:
wall-clock time of the loop, and target tokens without padding, </s> included.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from eole.bin.run.train import train  # type: ignore[import-not-found]
from eole.config.run import TrainConfig  # type: ignore[import-not-found]
from eole.utils.report_manager import StdoutReportMgr  # type: ignore[import-not-found]

_REPORT_EVERY = 5
_NEVER = 1_000_000_000


def main() -> None:
    """Train by the job file of the first argument. The last line printed is the measurement."""
    job = json.loads(Path(sys.argv[1]).read_bytes())
    torch.set_num_threads(job["threads"])
    points: list[dict[str, float]] = []
    report = StdoutReportMgr._report_training

    def noted(self: Any, step: int, num_steps: int, learning_rate: float, patience: int, stats: Any) -> Any:
        points.append({"update": step, "target_tokens": stats.n_tokens, "seconds": stats.elapsed_time()})
        return report(self, step, num_steps, learning_rate, patience, stats)

    StdoutReportMgr._report_training = noted
    train(TrainConfig(**_config(job, Path(job["folder"]))))
    print(json.dumps({"points": points}))


def _config(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    sizes = job["model"]
    return {
        "seed": job["seed"],
        "share_vocab": True,
        "src_vocab": str(folder / "vocabulary"),
        "tgt_vocab": str(folder / "vocabulary"),
        "transforms": [],
        "data": {"corpus": {"path_src": str(folder / "train.source"), "path_tgt": str(folder / "train.target")}},
        "report_every": _REPORT_EVERY,
        "model": {
            "architecture": "transformer",
            "hidden_size": sizes["d_model"],
            "transformer_ff": sizes["d_ff"],
            "heads": sizes["num_heads"],
            "add_qkvbias": True,
            "add_ffnbias": True,
            "add_final_linear_bias": True,
            "encoder": {"layers": sizes["encoder_layers"]},
            "decoder": {"layers": sizes["decoder_layers"]},
            "embeddings": {"word_vec_size": sizes["d_model"], "position_encoding_type": "SinusoidalInterleaved"},
            "share_embeddings": True,
            "share_decoder_embeddings": True,
        },
        "training": {
            "world_size": 1,
            "gpu_ranks": [],
            "num_workers": 0,
            "model_path": str(folder / "eole"),
            "compute_dtype": job["precision"],
            "optim": "adam",
            "adam_beta2": 0.98,
            "decay_method": "noam",
            "learning_rate": 1.0,
            "warmup_steps": job["warmup_updates"],
            "max_grad_norm": 0,
            "normalization": "tokens",
            "label_smoothing": job["label_smoothing"],
            "dropout": [sizes["dropout"]],
            "attention_dropout": [0.0],
            "param_init_method": "xavier_uniform",
            "batch_type": "tokens",
            "batch_size": job["max_tokens"],
            "train_steps": job["updates"],
            "valid_steps": _NEVER,
            "save_checkpoint_steps": _NEVER,
            "log_attention_entropy": False,
        },
    }


if __name__ == "__main__":
    main()
