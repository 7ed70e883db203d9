"""A translation job as a process that can be killed. See `Translation` in conftest.py."""

import sys
from pathlib import Path

from nmt_core.bundle.folder import sha256_of
from nmt_core.config import SearchConfig
from nmt_core.errors import NmtError
from nmt_core.execution.pool import InProcess, LocalWorkers
from nmt_core.jobs.folder import JobFolder
from nmt_core.jobs.inputs import find_inputs
from nmt_core.jobs.order import JobRequest, ModelVersion, Order
from nmt_core.jobs.run import Means, run_job

bundle, source, place, name, workers = sys.argv[1:]
order = Order(
    model=ModelVersion(name="tiny", version="1", sha256=sha256_of(Path(bundle, "config.json"))),
    search=SearchConfig(beam_size=1, max_length_offset=1),
    inputs=find_inputs(source).files,
    target=f"{place}/{name}",
    chunk_lines=500,
)
with LocalWorkers(int(workers)) as children:
    means = Means(bundle, workers=children if int(workers) > 1 else InProcess(), claim_seconds=3)
    try:
        outcome = run_job(JobRequest("tiny"), order, JobFolder(f"{place}/job"), means)
    except NmtError as error:
        sys.exit(str(error))
print(outcome.translated)
