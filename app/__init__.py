"""What people run: the web demo, the batch command line, training and evaluation."""

import os

# Read when torch first computes. oneDNN keeps a kernel for every shape of picture it has met, 1024
# by default: a batch of 1,000 photos of as many sizes then grew by 119 MB instead of 39
# (benchmarks/scale_batch.py, docs/scale_batch.txt).
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
