"""Export a PyTorch model as an ONNX bundle, and check that both translate alike."""
