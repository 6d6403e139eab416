"""A process that writes batches to a store until it is killed, and prints each checkpoint that it applied.

python -m tests.streams.storage.writer FOLDER VALUE_BYTES
"""

from __future__ import annotations

import sys
from pathlib import Path

from strandline.streams.storage.task_store import TaskStore
from tests.streams.storage.content import IDENTITY, batch


def main() -> None:
    folder, value_bytes = Path(sys.argv[1]), int(sys.argv[2])
    store = TaskStore.open(folder, IDENTITY)
    print(f"open {store.checkpoint}", flush=True)
    while True:
        number = store.checkpoint
        store.apply(batch(number, value_bytes), number + 1)
        print(store.checkpoint, flush=True)


if __name__ == "__main__":
    main()
