"""Fixtures that many tests share: a tiny pipeline, run through the real stages once per session, and a tiny bundle.

The weights of the bundle are random, but always the same.
"""

import contextlib
import gc
import json
import logging
import os
import shutil
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import sentencepiece
import torch
import torch.distributed as dist
from support.forked import Zygote
from support.homes import copy, once
from support.ranks import Ranks
from support.until import patient

from nmt_core.config import CorpusConfig, ModelConfig, PipelineConfig, SearchConfig, ToyCorpusConfig
from nmt_core.execution.torchrun import Launcher, LocalTorchrun
from nmt_core.models.model import TranslationModel
from nmt_core.models.transformer import Transformer
from nmt_core.stages.stage import Job, Reporter, Resources, SilentReporter, run_stage
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import REPORT, Artifact, Store, fingerprint_of
from nmt_core.tokenizer.tokenizer import EOS_ID, SPM_FILE, Tokenizer
from nmt_core.train.distributed import World

if TYPE_CHECKING:
    from flows.registry.candidate import Candidate
    from flows.runs.summary import RegisteredModel

pytest_plugins = ["support.costs", "support.keeper"]

# Tests run side by side, and so do the processes that they start. With more threads than cores, the threads of one
# process wait for each other without leaving their core.
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"

# A shell tells what it starts in its background to ignore Ctrl-C, and so would all programs that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples every time, and no test fails because a machine is busy.
hypothesis.settings.register_profile("same", deadline=None, derandomize=True)
hypothesis.settings.load_profile("same")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Keep the garbage collector from what is imported and collected, which stays until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a case with bytes by its argument. Packed bytes hold the time, and processes must collect the same names."""
    return argname if isinstance(val, bytes) else None


TINY = ModelConfig(d_model=32, d_ff=64, num_heads=4, encoder_layers=2, decoder_layers=2, tied_embeddings="none")

VARIATIONS: dict[str, dict[str, Any]] = {
    "one head, GELU": {"num_heads": 1, "activation": "gelu"},
    "narrow keys, learned positions": {"key_width": 4, "positions": "learned", "max_positions": 80},
    "wide values, SwiGLU": {"value_width": 16, "activation": "swiglu", "norm": "pre", "layer_norm_eps": 0.1},
    "heads that do not divide, rotary": {"num_heads": 3, "key_width": 16, "value_width": 16, "positions": "rotary"},
    "recurrent decoder": {"decoder_autoregression": "ssru", "activation": "swiglu"},
}

ConfigMaker = Callable[..., PipelineConfig]
StartTraining = Callable[..., Artifact]

_TINY: dict[str, Any] = {
    "name": "tiny",
    "corpus": {"toy": {"pairs": 1_000, "held_out": 20}},
    "clean": {"expected_length_ratio": 2.0},
    "tokenizer": {"vocab_size": 600},
    "encode": {"max_length": 64},
    "model": {"d_model": 16, "d_ff": 32, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1},
    "train": {
        "max_updates": 200,
        "max_tokens": 512,
        "micro_batch_tokens": 256,
        "warmup_updates": 50,
        "precision": "fp32",  # where results are compared to the last bit
        "validate_every": 50,
        "checkpoint_every": 50,
        "keep_checkpoints": 3,
    },
    "average": {"checkpoints": 2},
}


@dataclass(frozen=True)
class PrefectServer:
    """An embedded Prefect server, such as `nmt run` starts."""

    address: str
    secret: str
    database: Path


@contextlib.contextmanager
def _serve_prefect(home: Path) -> Iterator[PrefectServer]:
    """Serve a home, which may be empty, by an embedded Prefect server."""
    from flows.servers.secret import new_secret
    from flows.servers.servers import held_port, start_prefect
    from flows.settings import Settings

    secret = new_secret()
    with held_port() as port:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PREFECT_HOME", str(home))
            patch.setenv("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
            # It writes events together, every five seconds: a test that looks for its own would wait as long.
            patch.setenv("PREFECT_SERVER_SERVICES_EVENT_PERSISTER_FLUSH_INTERVAL", "0.2")
            server = start_prefect(Settings.load({"NMT_HOME": str(home)}), port, secret, embedded=True)
        try:
            address = f"http://127.0.0.1:{port}/api"
            server.wait_until(f"{address}/health", timeout=patient(120))
            yield PrefectServer(address, secret, home / "prefect.db")
        finally:
            server.stop()


@pytest.fixture(scope="session")
def prefect_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database of Prefect, to be copied: making one takes four CPU-seconds."""

    def make(folder: Path) -> None:
        with _serve_prefect(folder):
            pass

    return once(tmp_path_factory, "prefect", make) / "prefect.db"


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory, prefect_database: Path) -> Iterator[PrefectServer]:
    """Server for all tests of this process. It keeps what earlier tests did, so each test looks for its own objects."""
    home = tmp_path_factory.mktemp("prefect")
    shutil.copyfile(prefect_database, home / "prefect.db")
    with _serve_prefect(home) as server:
        yield server


@pytest.fixture(scope="module")
def prefect_api(prefect_server: PrefectServer) -> Iterator[str]:
    """Address of that server. Prefect in this process uses it."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

    ours = {PREFECT_API_URL: prefect_server.address, PREFECT_API_AUTH_STRING: prefect_server.secret}
    with temporary_settings(ours), pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_API_AUTH_STRING", prefect_server.secret)  # of commands that a test starts
        yield prefect_server.address
        for background in (EventsWorker, APILogWorker):  # what they hold belongs to this server
            background.drain_all(timeout=5)


@pytest.fixture(scope="session")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    """The process that forks for each `nmt` command."""
    zygote = Zygote(tmp_path_factory.mktemp("zygote"))
    yield zygote
    zygote.close()


@pytest.fixture(scope="session")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    """The process that forks for each process of a training."""
    ranks = Ranks(tmp_path_factory.mktemp("ranks"))
    yield ranks
    ranks.close()


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a bucket on an S3 server of this machine, which this process and its children find."""
    import fsspec

    from flows.servers.servers import Server, held_port

    with held_port() as port, pytest.MonkeyPatch.context() as patch:
        server = Server("S3", ["-m", "moto.server", "-p", str(port)], tmp_path_factory.mktemp("s3") / "log", {})
        server.wait_until(f"http://127.0.0.1:{port}/moto-api/", timeout=patient(120))
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "any")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        fsspec.filesystem("s3").mkdir("bucket")
        yield "s3://bucket"
        server.stop()


@pytest.fixture
def s3_folder(s3: str) -> str:
    """Folder in that bucket that belongs to the test."""
    return f"{s3}/{uuid.uuid4().hex}"


@pytest.fixture(scope="session")
def own_mounts() -> list[str]:
    """Prefix of a command that may mount a private file system."""
    for command in (["unshare", "--mount"], ["unshare", "--map-root-user", "--mount"]):
        if not shutil.which(command[0]):
            continue
        probe = [*command, "sh", "-c", "mount -t tmpfs -o size=64k tmpfs /tmp"]
        if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
            return command
    pytest.skip("the kernel allows no mount namespace, so no disk can be filled")


@dataclass
class RecordingReporter:
    """Reporter that keeps its messages."""

    lines: list[str] = field(default_factory=list)
    points: list[tuple[int, dict[str, float]]] = field(default_factory=list)

    def progress(self, done: float, total: float, note: str = "") -> None: ...

    def log(self, message: str) -> None:
        self.lines.append(message)

    def notice(self, message: str) -> None:
        self.lines.append(message)

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        self.points.append((step, dict(values)))


@pytest.fixture(autouse=True, scope="session")
def _stay_on_the_loopback() -> Iterator[None]:
    """Keep the communication between processes of a test on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GLOO_SOCKET_IFNAME", "lo")
        yield


@pytest.fixture(scope="session")
def make_config() -> ConfigMaker:
    """Make the smallest pipeline that is still complete. Values given by section replace its own."""

    def make(**sections: Mapping[str, Any]) -> PipelineConfig:
        values = dict(_TINY)
        for section, changes in sections.items():
            values[section] = values.get(section, {}) | dict(changes)
        return PipelineConfig.model_validate(values)

    return make


@pytest.fixture
def reporter() -> RecordingReporter:
    return RecordingReporter()


@pytest.fixture
def job(reporter: RecordingReporter) -> Job:
    """Make a job of one process and one thread, with this reporter."""
    return Job(reporter, Resources())


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory, make_config: ConfigMaker) -> dict[str, Artifact]:
    """Artifacts of the tiny pipeline from `download` to `encode`, by stage. No test may write to them."""

    def artifacts(folder: Path) -> dict[str, Artifact]:
        made: dict[str, Artifact] = {}
        for name in ("download", "clean", "split", "tokenizer", "encode"):
            stage = STAGES[name]
            inputs = {needed: made[needed] for needed in stage.needs}
            job = Job(SilentReporter(), Resources())
            made[name] = run_stage(stage, make_config(), Store(folder), inputs, job).artifact
        return made

    return artifacts(once(tmp_path_factory, "tiny", artifacts))  # reused, when they have been made


@pytest.fixture
def copy_of(tmp_path: Path) -> Callable[[Artifact], Artifact]:
    """Copy an artifact to a folder of the test, where it can be damaged."""

    def copy(artifact: Artifact) -> Artifact:
        folder = tmp_path / "copies" / artifact.stage
        shutil.copytree(artifact.path, folder)
        return Artifact(artifact.stage, artifact.fingerprint, folder)

    return copy


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Process group of this process alone, so that a trainer runs without `torchrun`."""
    # Every step of every checkpoint is logged, which would bury the message of a failing test.
    logging.getLogger("c10d-NullHandler-dcp_logger").setLevel(logging.WARNING)
    rendezvous = tmp_path_factory.mktemp("rendezvous") / "file"
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=0, world_size=1)
    yield World(0, 1, torch.device("cpu"))
    dist.destroy_process_group()


@pytest.fixture(scope="session")
def training_inputs(tiny: dict[str, Artifact]) -> Callable[..., dict[str, Artifact]]:
    """Inputs of the stage `train` in the tiny pipeline. An artifact given by name replaces the one of that stage."""
    return lambda **others: {name: tiny[name] for name in STAGES["train"].needs} | others


@pytest.fixture(scope="session")
def start_training(training_inputs: Callable[..., dict[str, Artifact]]) -> StartTraining:
    """Run the real `train` stage on the tiny corpus, with `torchrun` unless another launcher is given."""

    def start(
        config: PipelineConfig, store: Store, reporter: Reporter, processes: int = 1, launcher: Launcher | None = None
    ) -> Artifact:
        launcher = launcher or LocalTorchrun(processes, threads=processes)
        job = Job(reporter, Resources(), launcher=launcher, budget=config.budget)
        return run_stage(STAGES["train"], config, store, training_inputs(), job).artifact

    return start


@pytest.fixture
def free_port() -> Iterator[int]:
    """Port of the loopback on which nothing listens, and which the system gives to no other process during the test."""
    from flows.servers.servers import held_port

    with held_port() as port:
        yield port


@pytest.fixture(scope="session")
def tiny_tokenizer_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    words = ["the", "cat", "dog", "sees", "a", "big", "small", "house", "and", "runs", "to", "it", "now"]
    words += ["나는", "학생", "이다", "를", "본다"]
    lines = [f"{a} {b} {words[(i * j) % len(words)]}." for i, a in enumerate(words) for j, b in enumerate(words)]
    text = folder / "text.txt"
    text.write_text("\n".join(lines), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.Train(
        input=str(text),
        model_prefix=str(folder / "spm"),
        vocab_size=100,
        model_type="bpe",
        character_coverage=1.0,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        minloglevel=2,
    )
    return folder / SPM_FILE


@pytest.fixture(scope="session")
def tiny_tokenizer(tiny_tokenizer_file: Path) -> Tokenizer:
    return Tokenizer(tiny_tokenizer_file)


def make_model(config: ModelConfig, vocab_size: int, seed: int = 1, max_positions: int = 2_048) -> Transformer:
    """Make random weights larger: an untrained model finds every token almost equally probable."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Transformer(config, vocab_size, max_positions)
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                torch.nn.init.normal_(parameter, std=0.1)
        model.output.weight.data *= 3
        model.output.weight.data[EOS_ID] *= 3  # so that some targets end and others do not
    return model.eval().requires_grad_(False)


@pytest.fixture(scope="session", params=VARIATIONS.values(), ids=VARIATIONS)
def variation(request: pytest.FixtureRequest, tiny_tokenizer: Tokenizer) -> Transformer:
    """Tiny model with one layer of each kind, with some options changed."""
    sizes = TINY.model_dump() | {"encoder_layers": 1, "decoder_layers": 1}
    return make_model(ModelConfig.model_validate(sizes | request.param), tiny_tokenizer.vocab_size)


@pytest.fixture(scope="session")
def tiny_model(tiny_tokenizer: Tokenizer) -> Transformer:
    return make_model(TINY, tiny_tokenizer.vocab_size)


@pytest.fixture(scope="session")
def bundle_of(
    tiny_tokenizer_file: Path, tiny_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """Make a bundle of a model with the tiny vocabulary: in fp32, on request in int8 too, and with a shortlist."""
    from nmt_core.export.calibration import calibrate
    from nmt_core.export.gates import onnx_kernels
    from nmt_core.export.graphs import export_graphs
    from nmt_core.export.onnx import describe_bundle
    from nmt_core.export.onnx_kernels import Int8Kernels
    from nmt_core.search.shortlist import SHORTLIST_FILE, Shortlist

    def make(
        model: TranslationModel,
        *,
        int8: bool = False,
        shortlist: Shortlist | None = None,
        fp32: Path | None = None,
        folder: Path | None = None,
    ) -> Path:
        folder, listed = folder or tmp_path_factory.mktemp("bundle"), shortlist is not None
        if fp32:  # a set that was exported before
            shutil.copytree(fp32, folder / "fp32")
        else:
            export_graphs(onnx_kernels(model), folder / "fp32", with_attention=True, with_shortlist=listed)
        if int8:
            ranges = calibrate(model, tiny_tokenizer.encode(list(Registry.sentences[:8])), Registry.search)
            export_graphs(Int8Kernels(model, ranges), folder / "int8", with_shortlist=listed)
        if shortlist:
            shortlist.save(folder / SHORTLIST_FILE)
        shutil.copyfile(tiny_tokenizer_file, folder / SPM_FILE)
        config = PipelineConfig(name="tiny", corpus=CorpusConfig(toy=ToyCorpusConfig()))
        description = describe_bundle(folder, config, model)
        (folder / "config.json").write_text(description.model_dump_json())
        return folder

    return make


@pytest.fixture(scope="session")
def other_model(tiny_tokenizer: Tokenizer) -> Transformer:
    """Model of the same size that translates differently."""
    return make_model(TINY, tiny_tokenizer.vocab_size, seed=2)


@pytest.fixture(scope="session")
def other_bundle(
    other_model: Transformer, bundle_of: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    return once(tmp_path_factory, "other-bundle", lambda folder: bundle_of(other_model, folder=folder))


@pytest.fixture(scope="session")
def tiny_bundle(
    tiny_model: Transformer, bundle_of: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    return once(tmp_path_factory, "tiny-bundle", lambda folder: bundle_of(tiny_model, folder=folder))


@pytest.fixture(scope="session")
def int8_bundle(
    tiny_model: Transformer, tiny_bundle: Path, bundle_of: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Bundle of the same model, in fp32 and in int8, which CPUs prefer."""

    def make(folder: Path) -> None:
        bundle_of(tiny_model, int8=True, fp32=tiny_bundle / "fp32", folder=folder)

    return once(tmp_path_factory, "int8-bundle", make)


class Registry:
    """Registry with its own store, and bundles for it that are really evaluated. With an empty database it is new."""

    search = SearchConfig(beam_size=1, max_length_offset=4)
    sentences = tuple(
        f"{who} {what}."
        for who in ("the cat", "the dog", "a big house", "the small cat", "a dog")
        for what in ("sees a dog", "runs to it", "and sees a small cat", "is big", "runs now", "sees it and runs")
    )

    def __init__(self, home: Path, database: Path | None = None) -> None:
        from mlflow.tracking import MlflowClient

        from flows.settings import Settings

        self.home = home
        self.settings = Settings.load({"NMT_HOME": str(home), "NMT_THREADS": "1"})
        if database:
            shutil.copyfile(database, home / "mlflow.db")
        self.settings.prepare()
        self.client = MlflowClient(self.settings.mlflow_tracking_uri)
        if database:
            self.client.create_experiment("register", (home / "mlflow").as_uri())
        self.experiment = self.client.get_experiment_by_name("register").experiment_id

    def copy(self, home: Path) -> "Registry":
        """Return a registry of its own with a copy of everything."""
        copy(self.home, home)
        return Registry(home)

    def config(self, **sections: Any) -> PipelineConfig:
        """Make a recipe for the gate.

        Models are never too slow, and any of them may be the first champion. They are compared by chrF, because their
        output has no spaces, and they have not learnt to copy.
        """
        values = {"name": "test", "corpus": {"toy": {}}, "search": self.search.model_dump()}
        registry = {"max_slowdown": 1.0, "metric": "chrF", "built_in_sentences": "no_worse", "min_score": 0}
        registry |= sections.pop("registry", {})
        return PipelineConfig.model_validate(values | sections | {"registry": registry})

    def references(self, bundle: Path) -> list[str]:
        """Return the translations of a model. As references they make it the best of all models."""
        from nmt_core.translator import Translator

        return [line.text for line in Translator.load(bundle, self.search).translate(self.sentences)]

    def split(self, **tests: Sequence[str]) -> Artifact:
        """Test sets of the sentences, with these references, and a dev set."""
        import polars

        folder = self.home / "splits" / uuid.uuid4().hex
        folder.mkdir(parents=True)
        files = {name: f"test-{name}.parquet" for name in tests}
        for name, references in tests.items():
            pairs = {"source": list(self.sentences), "target": list(references)}
            polars.DataFrame(pairs).write_parquet(folder / files[name])
        pairs = {"source": list(self.sentences), "target": list(self.sentences)}
        polars.DataFrame(pairs).write_parquet(folder / "dev.parquet")
        (folder / "splits.json").write_text(json.dumps({"dev": "dev.parquet", "tests": files}))
        (folder / REPORT).write_text(json.dumps({"held_out": {}}))
        return Artifact("split", uuid.uuid4().hex, folder)

    def candidate(self, config: PipelineConfig, bundle: Path, split: Artifact) -> "Candidate":
        """Candidate: a bundle with the reports of `export`, `evaluate` and `clean`."""
        from flows.registry.candidate import Candidate

        fingerprint = fingerprint_of({"bundle": str(bundle)})
        export = self.settings.store.path("export", fingerprint)
        if not export.exists():
            shutil.copytree(bundle, export)
            parity = {"compared_sentences": 5, "identical_beams": 5, "max_difference": 1e-6}
            (export / REPORT).write_text(json.dumps(parity))
        inputs = {"export": Artifact("export", fingerprint, export), "split": split}
        evaluated = run_stage(
            STAGES["evaluate"], config, self.settings.store, inputs, Job(SilentReporter(), Resources())
        )
        clean = self.home / "clean"
        clean.mkdir(exist_ok=True)
        (clean / REPORT).write_text(json.dumps({"held_out": {"test/news": 3}, "skipped": {}}))
        return Candidate(inputs["export"], evaluated.artifact, clean=Artifact("clean", "0" * 32, clean), split=split)

    def register(self, candidate: "Candidate", config: PipelineConfig) -> "RegisteredModel":
        """Register a candidate like the last step of a retraining."""
        from flows.registry.register import register_model

        run = self.client.create_run(self.experiment).info.run_id
        return register_model(config, candidate, self.settings, run, {})


@pytest.fixture(scope="session")
def mlflow_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database of MLflow, to be copied: making one takes many seconds."""
    from flows.tracking.mlflow_tracker import open_database

    folder = once(tmp_path_factory, "mlflow", lambda folder: open_database(f"sqlite:///{folder / 'mlflow.db'}"))
    return folder / "mlflow.db"


@pytest.fixture(scope="module")
def make_registry(mlflow_database: Path) -> Iterator[Callable[[Path], Registry]]:
    """Make an empty registry in a folder."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "MLFLOW_HTTP_REQUEST_TIMEOUT", "MLFLOW_DISABLE_TELEMETRY"):
            patch.setenv(name, "")  # so that what `prepare` sets is taken back
        yield lambda home: Registry(home, mlflow_database)


@pytest.fixture
def registry(tmp_path: Path, make_registry: Callable[[Path], Registry]) -> Registry:
    return make_registry(tmp_path)
