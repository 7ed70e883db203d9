"""Import what the programs of the image import, and keep the bytecode.

    python precompile.py cpu

The image is read-only to its user, so Python could not keep bytecode later and would compile at each start. To compile
every file of every package would take 350 MB. Bytecode is tied to no time stamp: builders set these anew.
"""

import importlib
import py_compile
import sys
from pathlib import Path

SERVE = (
    *("mlflow", "mlflow.pyfunc", "mlflow.pyfunc.scoring_server", "pandas", "numpy", "onnxruntime", "pydantic"),
    *("sentencepiece", "fastapi", "uvicorn.main", "uvicorn.protocols.http.auto", "uvicorn.lifespan.on"),
)
PIPELINE = (
    *("torch", "torch.distributed.run", "torch.distributed.checkpoint", "torch.distributed.fsdp", "torch._dynamo"),
    *("prefect", "prefect.cli", "prefect.server.api.server", "prefect.workers.process", "prefect.task_runners"),
    *("prefect.deployments.runner", "prefect.runtime", "prefect.client.orchestration", "prefect.logging.handlers"),
    *(
        "mlflow.cli",
        "mlflow.artifacts",
        "mlflow.server",
        "mlflow.server.fastapi_app",
        "mlflow.tracking",
        "mlflow.store.tracking.sqlalchemy_store",
    ),
    *("polars", "polars_hash", "pyarrow.parquet", "onnx", "sacrebleu", "safetensors.torch", "ftfy", "py3langid"),
    *("typer", "rich.progress", "jinja2", "httpx", "filelock", "psutil", "fsspec", "s3fs", "boto3", "asyncpg"),
    *("psycopg", "alembic", "kubernetes.client", "kubernetes.config"),
)
"""Modules that the commands, the worker and both servers import, in addition to SERVE."""


def precompile(target: str) -> None:
    """Import the modules of a target, and write the bytecode of all that came with them."""
    for name in SERVE if target == "serve" else SERVE + PIPELINE:
        importlib.import_module(name)
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None) or ""
        if file.endswith(".py") and Path(file).is_relative_to(sys.prefix):
            py_compile.compile(file, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)


if __name__ == "__main__":
    precompile(sys.argv[1])
