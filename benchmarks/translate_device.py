"""Find out whether a device translates as the CPU does, and where its time goes.

    python benchmarks/translate_device.py BUNDLE --source test.source --reference test.target --output device.json

BUNDLE is an exported model (`translate_grow.py` makes one of the size of base). The sections, each of which is written
to the JSON file as soon as it ends, and which still run if an earlier one fails:

- libraries: what ONNX Runtime prints when it looks for CUDA's libraries, and the device that it chooses;
- agreement: the largest difference of log-probabilities from the CPU's, in nats (`nmt_core/search/agreement.py`), with
  tensors bound anew for each step as the product does it, and bound once;
- graphs: the same for single graphs: the encoder; steps that read the tokens so far; rows copied in place, and moved;
- text: BLEU of the translations, with a beam of 4 and greedy;
- placement: how many nodes of each graph each provider runs, and the time of runs and of operators;
- speed: lines and tokens per second, text to text, and the load of the GPU by nvidia-smi.

It needs numpy, pydantic, sentencepiece, sentencex, sacrebleu and onnxruntime-gpu. `--device cpu --precision fp32` runs
all of it on a CPU.
"""

import argparse
import contextlib
import io
import json
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnxruntime
import sacrebleu

from nmt_core import Translator
from nmt_core.bundle.folder import read_bundle
from nmt_core.config import SearchConfig
from nmt_core.search import onnx_session
from nmt_core.search.agreement import largest_difference
from nmt_core.search.onnx_buffers import Buffers
from nmt_core.search.onnx_step import OnnxDecoding, OnnxStepper
from nmt_core.tokenizer.tokenizer import BOS_ID

_BATCH_TOKENS = 32_768
_SHOWN_OPERATORS = 12


def main() -> None:
    """Run all sections. The exit status is 1 if one of them fails or the device does not agree with the CPU."""
    options = _options()
    bundle = read_bundle(options.bundle)
    graphs = options.bundle / options.precision
    on_device, on_cpu = (OnnxStepper(graphs, bundle.vocab_size, device) for device in (options.device, "cpu"))
    sections: dict[str, Callable[[], Any]] = {
        "libraries": _libraries,
        "agreement": partial(largest_difference, on_device, on_cpu),
        "agreement if bound once": partial(_bound_once, on_device, on_cpu),
        "graphs": partial(_graphs, on_device, on_cpu),
        "text, beam 4": partial(_text, options, 4),
        "text, greedy": partial(_text, options, 1),
        "placement": partial(_placement, options),
        "speed, greedy": partial(_speed, options, 1),
        "speed, beam 4": partial(_speed, options, 4),
    }
    results: dict[str, Any] = {"onnxruntime": onnxruntime.__version__}
    for name, section in sections.items():
        try:
            results[name] = section()
        except Exception:
            results[name] = {"error": traceback.format_exc()}
        options.output.write_text(json.dumps(results, indent=1), encoding="utf-8")
        print(f"{name}: {json.dumps(results[name])[:800]}", flush=True)
    failed = [name for name, result in results.items() if isinstance(result, dict) and "error" in result]
    if failed or not results["agreement"] <= options.most:
        sys.exit(f"failed: {', '.join(failed) or 'agreement'}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path, help="an exported model")
    parser.add_argument("--source", type=Path, required=True, help="text to translate")
    parser.add_argument("--reference", type=Path, required=True, help="its reference")
    parser.add_argument("--output", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--precision", default="fp16", help="(fp16)")
    parser.add_argument("--lines", type=int, default=100_000, help="lines to translate for speed, repeated (100,000)")
    parser.add_argument("--seconds", type=float, default=20, help="after which a measurement of speed ends (20)")
    parser.add_argument("--most", type=float, default=0.2, help="nats by which the device may differ (0.2)")
    return parser.parse_args()


def _libraries() -> dict[str, Any]:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        onnxruntime.preload_dlls()
    return {"printed": printed.getvalue(), "best device": onnx_session.best_device()}


def _bound_once(on_device: OnnxStepper, on_cpu: OnnxStepper) -> float:
    """`largest_difference` if tensors that do not change their places stay bound, as on a CPU."""
    bind, binding_of = OnnxDecoding._bind, Buffers._bound_to_copy

    def bind_if_new(self: OnnxDecoding, rows: int) -> None:
        if not self.is_bound:
            bind(self, rows)

    def kept_binding(self: Buffers) -> Any:
        return self._binding or binding_of(self)

    with patch.object(OnnxDecoding, "_bind", bind_if_new), patch.object(Buffers, "_bound_to_copy", kept_binding):
        return largest_difference(on_device, on_cpu)


def _graphs(on_device: OnnxStepper, on_cpu: OnnxStepper) -> dict[str, float]:
    """Largest differences of the tensors that single graphs return, on the same inputs."""
    source_BS = np.random.default_rng(1).integers(4, on_cpu.vocab_size, (6, 9))
    source_BS[1, 5:] = 0
    decodings = [one.start(source_BS, 4) for one in (on_device, on_cpu)]
    found = {"encoder": _apart(*(decoding.cross for decoding in decodings))}
    rows, token_R = np.arange(len(source_BS)), np.full(len(source_BS), BOS_ID)
    for position in range(3):
        answers = [decoding.step(token_R, rows) for decoding in decodings]
        found[f"step {position}, log-probabilities"] = float(np.abs(answers[0][0] - answers[1][0]).max())
        found[f"step {position}, past"] = _apart(*(decoding.past for decoding in decodings))
        token_R = answers[1][1][:, 0]
    for name, parents in (("copied rows", np.repeat(rows[::2], 2)), ("moved rows", np.repeat(rows, 2))):
        for decoding in decodings:
            decoding._follow(parents)
        found[name] = _apart(*(decoding.past for decoding in decodings))
    return found


def _apart(ours: Buffers, right: Buffers) -> float:
    pairs = zip(ours._values, right._values, strict=True)
    return max(float(np.abs(one.numpy().astype(np.float32) - other.numpy()).max(initial=0)) for one, other in pairs)


def _translator(options: argparse.Namespace, beam: int, batch_tokens: int) -> Translator:
    search = SearchConfig(precision=options.precision, beam_size=beam, batch_tokens=batch_tokens)
    return Translator.load(options.bundle, search, 2, options.device)


def _read(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()


@contextmanager
def _any_result() -> Iterator[None]:
    """Translate even if the device does not agree with the CPU: to see what comes out."""
    with patch("nmt_core.bundle.opened._MOST_DIFFERENCE", float("inf")):
        yield


def _text(options: argparse.Namespace, beam: int) -> dict[str, Any]:
    with _any_result():
        translator = _translator(options, beam, 8_192)
        translations = [translation.text for translation in translator.translate(_read(options.source))]
    bleu = sacrebleu.corpus_bleu(translations, [_read(options.reference)]).score
    return {"device": translator.device, "BLEU": bleu, "first lines": translations[:3]}


def _placement(options: argparse.Namespace) -> dict[str, Any]:
    """Nodes, operators and times of each graph, from ONNX Runtime's own profile."""
    sessions: list[onnxruntime.InferenceSession] = []
    with tempfile.TemporaryDirectory() as folder:

        def profiled(graph: Any, device: onnx_session.Device) -> onnxruntime.InferenceSession:
            settings = onnxruntime.SessionOptions()
            settings.intra_op_num_threads = settings.inter_op_num_threads = 1
            settings.enable_profiling = True
            settings.profile_file_prefix = f"{folder}/{Path(graph).stem}-{len(sessions)}"
            sessions.append(onnxruntime.InferenceSession(graph, settings, providers=onnx_session._PROVIDERS[device]))
            return sessions[-1]

        with patch.object(onnx_session, "_session", profiled), _any_result():
            _translator(options, 4, 8_192).translate(_read(options.source)[:600])
        return {Path(file := one.end_profiling()).name: _profile(Path(file)) for one in sessions}


def _profile(file: Path) -> dict[str, Any]:
    events = json.loads(file.read_text())
    nodes = [event for event in events if event.get("cat") == "Node" and event["name"].endswith("_kernel_time")]
    calls, micros = Counter[str](), Counter[str]()
    for node in nodes:
        operator = f"{node['args']['op_name']}, {node['args'].get('provider', '')}"
        calls[operator] += 1
        micros[operator] += node["dur"]
    runs = [event["dur"] for event in events if event["name"] == "model_run"]
    return {
        "runs": len(runs),
        "milliseconds of runs": sum(runs) / 1e3,
        "nodes by provider": Counter(node["args"].get("provider") for node in nodes),
        "operators (calls, milliseconds)": {
            operator: [calls[operator], time / 1e3] for operator, time in micros.most_common(_SHOWN_OPERATORS)
        },
    }


def _speed(options: argparse.Namespace, beam: int) -> dict[str, Any]:
    lines = islice(cycle(_read(options.source)), options.lines)
    loads: list[float] = []
    is_over = threading.Event()
    watch = threading.Thread(target=_watch_load, args=(loads, is_over))
    count = tokens = 0
    with _any_result():
        translator = _translator(options, beam, _BATCH_TOKENS)
        translator.translate(_read(options.source)[:50])
        watch.start()
        began = time.perf_counter()
        for translation in translator.translate_iterable(lines):
            count, tokens = count + 1, tokens + translation.tokens
            if time.perf_counter() - began > options.seconds:
                break
        seconds = time.perf_counter() - began
    is_over.set()
    watch.join()
    busy = float(np.mean(loads)) if loads else None
    return {"lines": count, "lines per second": count / seconds, "tokens per second": tokens / seconds, "GPU, %": busy}


def _watch_load(loads: list[float], is_over: threading.Event) -> None:
    command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
    while not is_over.wait(0.5):
        with contextlib.suppress(OSError, ValueError):
            loads.append(float(subprocess.run(command, capture_output=True, text=True, check=False).stdout))


if __name__ == "__main__":
    main()
