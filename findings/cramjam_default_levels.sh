#!/usr/bin/env bash
# cramjam 2.14.0, `lz4` and `zstd` without a level.
#
# Guess before the run: `lz4.Compressor()` without a level is LZ4's fast compressor (level 0 or 1), as with the lz4
# command, python-lz4 and the clients of Kafka. `zstd.compress(data)` without a level is level 11, as its docstring says.
#
# Seen: without a level, LZ4 gives the very bytes of level 4, which is one of the slow levels (LZ4 HC begins at 3), and
# takes several times the CPU of level 1. Its documentation names no default. Zstandard gives the bytes of level 3, not
# of 11. Who chose lz4 for its speed got neither its speed nor, from zstd, what the docstring promises; our codecs name
# their levels.
#
# Exits with 1 if cramjam behaves otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check cramjam==2.14.0
"$folder/venv/bin/python" - <<'PY'
import random
import sys
import time
from importlib.metadata import version

import cramjam

rng = random.Random(1)
words = [bytes(rng.choices(b"abcdefgh", k=rng.randint(2, 9))) for _ in range(300)]
data = b" ".join(rng.choices(words, k=80_000))


def lz4(level):
    stream = cramjam.lz4.Compressor(level=level)
    stream.compress(data)
    return bytes(stream.finish())


def ms(function, *args):
    best = float("inf")
    for _ in range(5):
        began = time.process_time()
        function(*args)
        best = min(best, time.process_time() - began)
    return best * 1000


def zstd(level):
    return bytes(cramjam.zstd.compress(data, level=level))


print("cramjam", version("cramjam"), "on", len(data), "bytes of words")
for level in (None, 0, 1, 3, 4, 9):
    print(f"lz4 level {level}: {len(lz4(level))} bytes, {ms(lz4, level):.1f} ms of CPU")
for level in (None, 1, 3, 11):
    print(f"zstd level {level}: {len(zstd(level))} bytes")
same = [level for level in range(13) if lz4(level) == lz4(None)]
alike = [level for level in range(1, 20) if zstd(level) == zstd(None)]
print("lz4 without a level is level", same)
print("zstd without a level is level", alike, "and its docstring says:", cramjam.zstd.compress.__doc__.split("#")[-1].strip(" `\n"))
sys.exit(0 if same == [4] and alike == [3] else 1)
PY
