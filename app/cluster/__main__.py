"""python -m app.cluster: the batch on a Ray cluster."""

import sys

from app.cluster.command import main

if __name__ == "__main__":
    sys.exit(main())
