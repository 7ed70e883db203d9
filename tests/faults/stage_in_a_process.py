"""The stage `train` as a process that can be killed. See `Training` in conftest.py."""

import json
import sys
from pathlib import Path

from nmt_core.config import PipelineConfig
from nmt_core.errors import NmtError
from nmt_core.execution.torchrun import LocalTorchrun
from nmt_core.stages.stage import Job, Resources, SilentReporter, run_stage
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import Artifact, Store


class Printing(SilentReporter):
    def log(self, message):
        print(message, flush=True)


store, inputs, processes, config = sys.argv[1:]
job = Job(Printing(), Resources(), launcher=LocalTorchrun(int(processes), int(processes)))
try:
    made = {name: Artifact(name, fingerprint, Path(path)) for name, (fingerprint, path) in json.loads(inputs).items()}
    run_stage(STAGES["train"], PipelineConfig.model_validate_json(config), Store(Path(store)), made, job)
except NmtError as error:
    print(f"{type(error).__name__}: {error}", flush=True)
    sys.exit(error.exit_code)
