"""PyTorch to an ONNX bundle, and the gate that compares the two."""
