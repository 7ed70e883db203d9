"""List the contenders of `translate.py`: how each is started, asked, and given its best settings."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from translate_child import Ids, Question

Settings = dict[str, Any]
"""Settings of one contender: `workers`, `threads` of each, `batch_tokens`, and `environment`."""

_FOLDER = Path(__file__).parent
_LOADED_WITH = ("workers", "threads")
_HOPELESS = 1.6
"""Times the least time so far: settings whose first run takes longer are not tried again."""


class EndedError(SystemExit):
    """A contender's process has ended by itself. A caller that does not expect that ends with the message."""


class Child:
    """A process with a loaded model.

    Args:
        command: interpreter and arguments.
        environment: variables that it gets beside ours.
        load: its first question.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], load: Question) -> None:
        self._process = subprocess.Popen(
            command, env=os.environ | environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )
        self._command = command
        self.loaded = self.ask(load)

    def ask(self, question: Question) -> dict[str, Any]:
        """Its answer."""
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        line = self._process.stdout.readline()
        if not line:
            raise EndedError(f"{' '.join(self._command)} ended with {self._process.wait()}; the reason stands above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End it."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


@dataclass
class Contender:
    """One system in one precision."""

    name: str
    command: Sequence[str]
    load: Question
    """First question to the contender, without its settings."""
    choices: Mapping[str, Sequence[Any]]
    """Values that the sweep tries for each of `Settings`. Workers and threads come as pairs."""
    children: dict[str, Child] = field(default_factory=dict)
    """Loaded models, by what they were loaded with."""

    def child(self, settings: Settings) -> Child:
        """A process with these settings, the text of which is still to be told."""
        key = self._key(settings)
        if key not in self.children:
            load = {name: settings[name] for name in _LOADED_WITH}
            self.children[key] = Child(self.command, settings["environment"], self.load | load)
        return self.children[key]

    def forget(self, settings: Settings) -> None:
        """Take it that the process with these settings, if there is one, has ended."""
        self.children.pop(self._key(settings), None)

    @staticmethod
    def _key(settings: Settings) -> str:
        return json.dumps([settings[name] for name in (*_LOADED_WITH, "environment")])

    def close(self) -> None:
        """End all processes."""
        self.keep_only([])

    def keep_only(self, kept: Sequence[Settings]) -> None:
        """End the processes that none of these settings needs."""
        needed = {id(self.child(settings)) for settings in kept}
        for key in [key for key, child in self.children.items() if id(child) not in needed]:
            self.children.pop(key).close()


def best_settings(contender: Contender, sources: Sequence[Ids], rules: Question, times: int) -> Settings:
    """The settings with which it translates the text in the least wall-clock time, the first time not counted.

    Environments are compared with batches of one size, then the sizes in the two best of them, and arrangements of
    threads with what has won: all products of these would take hours for a large model.
    """
    choices = contender.choices
    watch = _Stopwatch(contender, sources, rules, times)
    sizes = choices["batch_tokens"]
    start = {"batch_tokens": sizes[len(sizes) // 2]} | dict(zip(_LOADED_WITH, choices["threads"][0], strict=True))
    candidates: list[Settings] = [start | {"environment": environment} for environment in choices["environment"]]
    if max(map(len, choices.values())) == 1:
        return candidates[0]
    candidates = sorted(candidates, key=watch.seconds)[:2]
    candidates = [settings | {"batch_tokens": size} for settings in candidates for size in sizes]
    best = min(candidates, key=watch.seconds)
    candidates = [best | dict(zip(_LOADED_WITH, threads, strict=True)) for threads in choices["threads"]]
    best = min(candidates, key=watch.seconds)
    print(f"  {contender.name}: the fastest: {described(best)}", file=sys.stderr)
    return best


@dataclass
class _Stopwatch:
    """Measure the time that a contender takes for a text, by its settings."""

    contender: Contender
    sources: Sequence[Ids]
    rules: Question
    times: int
    measured: dict[str, float] = field(default_factory=dict)

    def seconds(self, settings: Settings) -> float:
        """Infinite in an environment in which it does not run, as of instructions that this CPU lacks."""
        key = described(settings)
        if key not in self.measured:
            try:
                self.measured[key] = self._measure(settings)
            except EndedError:
                if not settings["environment"]:
                    raise
                self.contender.forget(settings)
                self.measured[key] = math.inf
            print(f"  {self.contender.name}: {key}: {self.measured[key]:.2f} s", file=sys.stderr)
        return self.measured[key]

    def _measure(self, settings: Settings) -> float:
        child = self.contender.child(settings)
        child.ask({"sources": self.sources})
        first = child.ask(self.rules | settings)["wall"]
        if first > _HOPELESS * min(self.measured.values(), default=math.inf):
            return float(first)
        return float(min(child.ask(self.rules | settings)["wall"] for _ in range(self.times)))


def described(settings: Settings) -> str:
    """Settings in a few words."""
    environment = "".join(f", {name}={value}" for name, value in settings["environment"].items())
    return f"{settings['workers']} x {settings['threads']}, {settings['batch_tokens']:,} tokens{environment}"


def contenders(options: Any, precision: str, models: Mapping[str, Any]) -> list[Contender]:
    """Return the contenders of a precision, ours first.

    Args:
        options: of the command line.
        precision: of ours.
        models: `bundle`, `weights`, `heads`, and folders of converted models by the name of CTranslate2's type.
    """
    batches = options.batch_tokens
    many, one = (options.threads, 1), (1, options.threads)
    if options.device == "cuda":  # threads only ask here, and one at a time may serve
        one = (1, 1)
    ours = [sys.executable, str(_FOLDER / "translate_ours.py")]
    load = {"model": str(models["bundle"]), "device": options.device}
    kinds = {"int8": "int8", "fp32": "float32", "fp16": "float16"}
    choices: dict[str, Sequence[Any]] = {
        "threads": [many] if options.device == "cpu" else [many, one],
        "batch_tokens": batches,
        "environment": [{}],
    }
    all_contenders = [Contender("ours", ours, load | {"precision": precision}, choices)]
    if options.ctranslate2:
        all_contenders.append(
            Contender(
                "CTranslate2",
                [options.ctranslate2, str(_FOLDER / "translate_ctranslate2.py")],
                {"model": str(models[kinds[precision]]), "device": options.device, "precision": kinds[precision]},
                {
                    "threads": [many, one],
                    "batch_tokens": batches,
                    "environment": options.isas if options.device == "cpu" else [{}],
                },
            )
        )
    if options.shortlist:
        listed = {"precision": precision, "shortlist": True}
        all_contenders.append(Contender("ours, shortlist", ours, load | listed, choices))
    load |= {"precision": "eager", "weights": str(models["weights"]), "heads": models["heads"]}
    choices = {"threads": [many, one], "batch_tokens": batches, "environment": [{}]}
    if options.eager and precision == "fp32":
        all_contenders.append(Contender("PyTorch eager", ours, load, choices))
    if options.transformers and (precision == "fp32" or options.device == "cuda"):
        marian = [options.transformers, str(_FOLDER / "translate_marian.py")]
        all_contenders.append(Contender("transformers", marian, load | {"half": precision == "fp16"}, choices))
    return all_contenders
