"""What people run: the web demo, the batch command line, training and evaluation."""

import os

# Read when torch first computes. oneDNN keeps a kernel for every shape of picture it has met, up to
# 1024 of them: a batch of photos of many sizes would grow by 80 MB in its first hundred.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
