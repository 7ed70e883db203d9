#!/usr/bin/env bash
# The benchmark gpu.py, unattended:  [OUT=FOLDER] [WHEELS=FOLDER] [PYTHON=INTERPRETER] benchmarks/gpu.sh [options of gpu.py]
#
# Finds an interpreter whose torch sees a GPU, and writes gpu.json and gpu.log into OUT (./gpu-out); nothing is left
# anywhere else, and scratch and compiled kernels are removed in the end. A package that the interpreter lacks is
# taken from the wheels in WHEELS, if there are any; it goes into OUT as well. Nothing is fetched.
#
# With MODEL=FOLDER it then looks whether translation in fp16 on the GPU is right, and where its time goes
# (translate_device.py: device.json), and compares it with CTranslate2's and Marian's (translate.py: translate.log), beam
# 4 and greedy: the exit status is 1 if it is wrong or slower than it is to be. FOLDER holds export/ (a bundle of a small
# model), model.safetensors (the averaged weights that it was made from), and test.source and test.target, plain text;
# the model is grown to the size of Transformer base there (translate_grow.py). That needs onnx, onnxruntime-gpu,
# sentencex and sacrebleu as well. ctranslate2 and transformers take part where they are installed. `--limit 0` leaves the
# training out. Growing, looking and comparing may take MODEL_LIMIT seconds each (3600); what takes longer is ended, with
# exit status 124.
#
# It has been run on an H200 in parts (gpu-h200.json beside this file). All of it runs on a CPU, with
# `--device cpu --tiny`, where the model stays as small as it is, and ours is compared with PyTorch in fp32; a test does
# that (tests/faults/test_the_gpu_benchmark.py).
set -euo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-$PWD/gpu-out}
mkdir -p "$out"
out=$(cd "$out" && pwd)
scratch=$out/scratch
rm -rf "$scratch"
mkdir -p "$scratch/tmp"
trap 'rm -rf "$scratch"' EXIT

unset PYTHONSAFEPATH  # the programs import each other from their folder
export PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
export TMPDIR=$scratch/tmp XDG_CACHE_HOME=$scratch/cache CUDA_CACHE_PATH=$scratch/cuda
export TORCHINDUCTOR_CACHE_DIR=$scratch/inductor TRITON_CACHE_DIR=$scratch/triton
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-8}"

device=cuda
condition="import torch; assert torch.cuda.is_available()"
for argument in "$@"; do
    if [ "$argument" = cpu ]; then
        device=cpu
        condition="import torch"
    fi
done

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" "${VIRTUAL_ENV:+$VIRTUAL_ENV/bin/python}" .venv/bin/python \
        $(type -ap python3 python python3.14 python3.13 python3.12 python3.11 || true) \
        /opt/*/bin/python3 /opt/*/.venv/bin/python3 /opt/*/*/bin/python3 /usr/local/bin/python3; do
        if [ -n "$candidate" ] && [ -x "$(command -v "$candidate" || true)" ] &&
            "$candidate" -c "import sys; assert sys.version_info >= (3, 11); $condition" 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "gpu.sh: no Python 3.11 or later here has a torch that sees a GPU: name one by PYTHON=" >&2
    return 1
}
python=$(find_python)
echo "gpu.sh: $python"

missing=$(MODEL=${MODEL:-} DEVICE=$device "$python" - <<'END'
import importlib.util
import os
names = ["numpy", "pyarrow", "pydantic", "safetensors", "sentencepiece"]
if os.environ["MODEL"]:
    names += ["onnx", "onnxruntime", "sacrebleu", "sentencex"]
print(*(name for name in names if importlib.util.find_spec(name) is None))
END
)
if [ -n "$missing" ] && [ -n "${WHEELS:-}" ]; then
    "$python" -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir --target "$scratch/site" \
        "$WHEELS"/*.whl
    export PYTHONPATH="$PYTHONPATH:$scratch/site"
elif [ -n "$missing" ]; then
    echo "gpu.sh: $python lacks: $missing; give wheels of them in WHEELS=" >&2
    exit 1
fi
trained=0
"$python" benchmarks/gpu.py --output "$out/gpu.json" --scratch "$scratch" "$@" 2>&1 | tee "$out/gpu.log" || trained=$?
if [ -n "${MODEL:-}" ]; then
    size=(--base --precisions fp16)
    others=(--precisions fp16 --batch-tokens 4096 8192 16384 32768 --enforce-bars)
    looking=(--precision fp16)
    has() { "$python" -c "import importlib.util as u; assert u.find_spec('$1')" 2>/dev/null; }
    if [ "$device" = cpu ]; then
        size=(--precisions fp32 fp16)
        others=(--eager --precisions fp16 fp32 --batch-tokens 4096 --times 1)
        looking=(--precision fp32 --seconds 2)
    else
        if has ctranslate2; then others+=(--ctranslate2 "$python"); fi
        if has transformers; then others+=(--transformers "$python"); fi
    fi
    limit=${MODEL_LIMIT:-3600}
    timeout "$limit" "$python" benchmarks/translate_grow.py "$MODEL/export" "$MODEL/model.safetensors" \
        "$scratch/grown" --unchecked "${size[@]}" 2>&1 | tee "$out/grown.log"
    timeout "$limit" "$python" benchmarks/translate_device.py "$scratch/grown/export" --source "$MODEL/test.source" \
        --reference "$MODEL/test.target" --output "$out/device.json" --device "$device" "${looking[@]}" 2>&1 |
        tee "$out/device.log"
    timeout "$limit" "$python" benchmarks/translate.py "$scratch/grown/export" \
        "$scratch/grown/average/model.safetensors" --source "$MODEL/test.source" --reference "$MODEL/test.target" \
        --device "$device" --beams 4 1 "${others[@]}" 2>&1 | tee "$out/translate.log"
fi
exit "$trained"
