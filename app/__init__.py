"""What people run: the web demo, the batch command line, training and evaluation."""

import os

# Read when torch first computes. oneDNN keeps a kernel for every shape of picture it has met, and
# ideep, torch's layer above it, how each is to be called; 1024 by default, either. A batch of 1,000
# photos of as many sizes grew by 119 MB, with the first limit alone by 39
# (benchmarks/scale_batch.py, docs/scale_batch.txt). A pass has some twenty.
for _cache in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(_cache, "64")
