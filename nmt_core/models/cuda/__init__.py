"""Kernels for NVIDIA GPUs, in Triton: what PyTorch's own operators leave to be gained in training.

They compute what the plain formulas beside them compute (`attention.attend_reference`, `loss.py`), and are tested
against these without a GPU, by Triton's interpreter. Triton comes with PyTorch's builds for CUDA; with the others
nothing here is imported.
"""
