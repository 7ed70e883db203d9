"""Dependencies of each installation: one build of onnxruntime on each machine, and no operators except its own."""

import tomllib
from pathlib import Path

import onnx
import pytest
from packaging.requirements import Requirement

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MACHINES = {
    ("linux", "x86_64"): "onnxruntime-gpu",  # its CPU path serves machines without a GPU
    ("linux", "aarch64"): "onnxruntime",
    ("darwin", "arm64"): "onnxruntime",
    ("win32", "AMD64"): "onnxruntime",
}


@pytest.mark.parametrize(("machine", "wanted"), MACHINES.items(), ids=str)
def test_each_machine_gets_one_build_of_onnxruntime(machine: tuple[str, str], wanted: str) -> None:
    environment = dict(zip(("sys_platform", "platform_machine"), machine, strict=True))
    requirements = [Requirement(line) for line in PROJECT["dependencies"]]
    installed = [each.name for each in requirements if not each.marker or each.marker.evaluate(environment)]
    assert [name for name in installed if name.startswith("onnxruntime")] == [wanted]


def test_the_graphs_need_only_operators_of_onnxruntime(int8_bundle: Path) -> None:
    files = sorted(int8_bundle.rglob("*.onnx"))
    assert {file.parent.name for file in files} == {"fp32", "int8"}
    for file in files:
        model = onnx.load(file, load_external_data=False)
        own = {function.domain for function in model.functions}
        nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
        assert {node.domain for node in nodes} - own <= {"", "ai.onnx", "com.microsoft"}, file.name
