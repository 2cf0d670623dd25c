"""One thread a test process: the models are small, and processes that share two cores wait for each other's threads."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported, here and in the processes that tests start
