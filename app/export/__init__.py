"""A checkpoint as ONNX and small files, for runtimes without torch: ``python -m app.export``."""
