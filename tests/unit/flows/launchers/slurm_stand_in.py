"""A stand-in for Slurm: one file under the names of its commands. It is no Slurm, and shows nothing about a real one.

It knows the options that the launcher uses, starts the batch script as a process of this machine at once, and keeps one
file per job in SLURM_STAND_IN. What Slurm 22.05 was seen to do, it does too: `srun` kills its processes on SIGTERM, a
signal without --batch reaches them, and a script with --ntasks-per-node gets the fewest nodes. `make cluster` runs the
launcher on the real one. A file `away` there makes every command fail as if the controller were down; a file
`busy` keeps new jobs waiting, and `forgetful` has it know nothing of those that have ended. Jobs are numbered from
SLURM_STAND_IN_FIRST.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HOME = Path(os.environ["SLURM_STAND_IN"])
Job = dict[str, Any]


def read(number: str) -> Job:
    job: Job = json.loads((HOME / f"{number}.json").read_text())
    return job


def write(job: Job) -> None:
    draft = HOME / f"{job['number']}.{os.getpid()}.draft"
    draft.write_text(json.dumps(job))
    draft.replace(HOME / f"{job['number']}.json")


def jobs() -> list[Job]:
    return [read(file.stem) for file in sorted(HOME.glob("*.json"))]


def options(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return the options before the first word that is not one, and the rest."""
    known: dict[str, str] = {}
    while arguments and arguments[0].startswith("--"):
        name, _, value = arguments.pop(0)[2:].partition("=")
        known[name] = value
    return known, arguments


def sbatch(arguments: list[str]) -> None:
    known, (script, *rest) = options(arguments)
    if "REFUSED" in Path(script).read_text():
        sys.exit("sbatch: error: invalid partition specified: REFUSED")
    number = str(int(os.environ.get("SLURM_STAND_IN_FIRST", "1")) + len(jobs()))
    least, _, most = known["nodes"].partition("-")
    nodes = least if re.search(r"^#SBATCH --ntasks", Path(script).read_text(), re.MULTILINE) else most
    write({"number": number, "name": known["job-name"], "state": "PENDING", "code": "0:0", "submission": sys.argv,
           "nodes": nodes})  # fmt: skip
    log = Path(known["output"].replace("%j", number).replace("%%", "%"))
    node = [sys.executable, "-S", __file__, "node", number, known["chdir"], str(log), script, *rest]
    nothing = subprocess.DEVNULL  # otherwise a reader of sbatch's output would wait for the job
    subprocess.Popen(node, start_new_session=True, stdin=nothing, stdout=nothing, stderr=nothing)
    print(number)


def start(command: list[str], register: Callable[[int], object], **options: Any) -> "subprocess.Popen[bytes]":
    """Start a process whose id is registered before it runs, so that a test that sees its work can signal it."""
    return subprocess.Popen(command, preexec_fn=lambda: register(os.getpid()), **options)


def node(arguments: list[str]) -> None:
    """Act as a node: run the script, again if it is requeued, and record how it ended."""
    number, folder, log, *script = arguments
    while True:
        while (HOME / "busy").exists() and read(number)["state"] == "PENDING":
            time.sleep(0.02)
        if read(number)["state"] != "PENDING":
            return
        environment = os.environ | {"SLURM_JOB_ID": number}
        with Path(log).open("ab") as output:
            batch = start(
                ["bash", *script],
                lambda pid: write(read(number) | {"state": "RUNNING", "pid": pid, "has_run": True}),
                cwd=folder,
                env=environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            code = batch.wait()
        state = read(number)["state"]
        if state != "PENDING":  # else it has been requeued
            end = state if state == "CANCELLED" else "FAILED" if code else "COMPLETED"
            write(read(number) | {"state": end, "code": f"{max(code, 0)}:{max(-code, 0)}"})
            return


def squeue(arguments: list[str]) -> None:
    known, _ = options(arguments)
    if "steps" in known:
        step = HOME / f"{known['jobs']}.step"
        print(f"{known['jobs']}.batch", *([f"{known['jobs']}.0"] if step.exists() else []), sep="\n")
        return
    for job in jobs():
        if job["name"] == known["name"] and job["state"] in {"PENDING", "RUNNING"}:
            print(f"{job['number']}|{job['state']}|{'Resources' if job['state'] == 'PENDING' else 'None'}")


def scancel(arguments: list[str]) -> None:
    known, (number,) = options(arguments)
    job = read(number)
    if "signal" in known:
        step = HOME / f"{number}.step"
        if "batch" in known or step.exists():
            os.kill(job["pid"] if "batch" in known else int(step.read_text()), signal.Signals[f"SIG{known['signal']}"])
        return
    write(job | {"state": "CANCELLED"})
    if "pid" in job:
        os.killpg(job["pid"], signal.SIGKILL)


def srun(arguments: list[str]) -> None:
    """Use this machine as the only node of every allocation."""
    _, command = options(arguments)
    step = HOME / f"{os.environ['SLURM_JOB_ID']}.step"
    draft = step.with_suffix(".draft")
    process = start(command, lambda pid: draft.write_text(str(pid)) and draft.replace(step))
    signal.signal(signal.SIGTERM, lambda *_: process.kill())
    code = process.wait()
    step.unlink()
    sys.exit(code if code >= 0 else 128 - code)


def scontrol(arguments: list[str]) -> None:
    match arguments:
        case ["show", "job", number]:
            if (HOME / "forgetful").exists():
                sys.exit("slurm_load_jobs error: Invalid job id specified")
            job = read(number)
            print(f"JobId={number} JobName={job['name']}\n   JobState={job['state']} Reason=None\n   Requeue=1")
            print(f"   ExitCode={job['code']} DerivedExitCode=0:0\n   RunTime=00:01:23 TimeLimit=UNLIMITED")
            has_nodes = job.get("has_run") and job["state"] != "PENDING"
            print(f"   ReqNodeList=(null) ExcNodeList=(null)\n   NodeList={'node0' if has_nodes else ''}")
            print(f"   NumNodes={job['nodes']} NumCPUs=2")
        case ["requeue", number]:
            write(read(number) | {"state": "PENDING"})


def sacct(arguments: list[str]) -> None:
    job = read(arguments[-1])
    state = f"{job['state']} by 1000" if job["state"] == "CANCELLED" else job["state"]
    print(f"{state}|{job['code']}|00:01:23|{'node0' if job.get('has_run') else 'None assigned'}|{job['nodes']}")


COMMANDS: dict[str, Callable[[list[str]], None]] = {
    each.__name__: each for each in (sbatch, squeue, scancel, srun, scontrol, sacct, node)
}

if __name__ == "__main__":
    name, *rest = sys.argv[1:]
    if (HOME / "away").exists() and name not in {"srun", "node"}:
        sys.exit(f"{name}: error: Unable to contact slurm controller (connect failure)")
    COMMANDS[name](rest)
