"""Run the stage `download` or `clean` by itself, as the process that `clean.py` watches.

    python clean_stage.py STAGE CONFIG FOLDER WORKERS

CONFIG is a configuration as JSON, and artifacts go to FOLDER. The last line printed is the result of `clean`. While
`clean` runs, FOLDER/phase names its phase: judge, compare or finish.
"""

import json
import sys
from pathlib import Path

from nmt_core.config import PipelineConfig
from nmt_core.execution.pool import LocalWorkers
from nmt_core.stages.stage import Job, Resources, SilentReporter, run_stage
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import Store

_PHASES = {"read": "judge", "copies": "compare", "kept": "finish"}  # by the last word of a note of the stage


class PhaseReporter(SilentReporter):
    """Reporter that writes down the phase of `clean` that begins, which it knows from the notes of the stage."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._phase = ""

    def progress(self, done: float, total: float, note: str = "") -> None:
        """Write the phase that the note names to the file, if it is a new one."""
        phase = _PHASES.get(note.rpartition(" ")[2], self._phase)
        if phase != self._phase:
            self._phase = phase
            self._file.write_text(phase, encoding="utf-8")


def main() -> None:
    """Run the stage. A `clean` that was made before is made again."""
    name, config_file, folder, workers = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
    config = PipelineConfig.model_validate_json(config_file.read_bytes())
    texts = Store(folder / "text")
    with LocalWorkers(workers) as pool:
        job = Job(PhaseReporter(folder / "phase"), Resources(threads=workers), pool)
        if name == "download":
            run_stage(STAGES["download"], config, texts, {}, job)
            return
        inputs = {"download": texts.newest("download", 1)[0]}
        outcome = run_stage(STAGES["clean"], config, Store(folder / "clean"), inputs, job, force=True)
    artifact = outcome.artifact
    files = {name: file.sha256 for name, file in artifact.manifest().outputs.items() if name.endswith(".parquet")}
    print(json.dumps({"seconds": outcome.seconds, "kept": artifact.report()["items_out"], "files": files}))


if __name__ == "__main__":
    main()
