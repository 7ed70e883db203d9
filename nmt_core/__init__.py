"""The path of the data, one package or module per step.

    corpora -> download -> clean -> split -> tokenizer -> encode -> train -> average -> export -> evaluate

Every arrow is an artifact: an immutable folder, named by the fingerprint of what made it (`artifacts.py`). Every word
between arrows is a stage: one function of one shape (`stage.py`), listed in one table (`stages.py`). The flows above
(`flows/`) add Prefect, MLflow and registration; nothing in here imports either.

Layers; imports point only to the left, and a test says so:

    codes, config, errors, spelling, processes, library_versions, worker, digests, durable -> manifests -> artifacts,
    objects, shared_store, workers, launchers -> stage -> corpus -> tokenizer -> batches -> models -> search, scoring
    -> train -> evaluate -> export -> jobs, explain -> stages -> flows

`translator.py` and `bundle.py` stand beside the path: they load what `export` made and translate, with onnxruntime and
sentencepiece but without torch, Prefect or MLflow. `jobs/` translates files of any size with them, and `explain/` shows
what happens to a sentence on its way.
"""

import os

# ONNX Runtime reads this when it is imported; without it, each session sends telemetry to Microsoft. This line runs
# before any other of ours: in the command line, in training processes and in registered models, which bring nmt_core.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
