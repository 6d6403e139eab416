#!/usr/bin/env bash
# PySpark 4.3.0, a streaming source in Python (DataSourceStreamReader).
#
# Guess before the run: a query that has processed batches up to offset N calls the reader's commit(end) for each of
# them, the last one too, before it ends: its documentation says that Spark has then processed all data up to `end`.
#
# Seen: commit(end) comes only when Spark plans the batch after it. With processingTime, three batches processed and the
# query stopped: commit for 1 and 2, not for 3. With availableNow=True and once=True the one batch is in the sink and
# commit is never called, nor at stop(), nor by a second run over the same checkpoint that finds nothing new. A source
# that reports its progress in commit, as to a consumer group, looks as if its last batch had never been read; ours
# reports it when Spark asks for the next offsets instead.
#
# Needs Java 17 on PATH. Exits with 1 if PySpark behaves otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyspark==4.3.0 pyarrow==23.0.1 pandas==2.3.3
cat > "$folder/source.py" <<'PY'
import sys
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

END, LOG = 3, Path(sys.argv[1])


class Reader(DataSourceStreamReader):
    def __init__(self, log):
        self.log = log

    def initialOffset(self):
        return {"at": 0}

    def latestOffset(self):
        self.asked = min(getattr(self, "asked", 0) + 1, END)
        return {"at": self.asked}

    def partitions(self, start, end):
        return [InputPartition((start["at"], end["at"]))]

    def read(self, partition):
        first, end = partition.value
        for number in range(first, end):
            yield (number,)

    def commit(self, end):
        with open(self.log, "a") as log:
            log.write(f"{end['at']}\n")


class Numbers(DataSource):
    @classmethod
    def name(cls):
        return "numbers"

    def schema(self):
        return "number int"

    def streamReader(self, schema):
        return Reader(self.options["log"])


spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
spark.dataSource.register(Numbers)


def run(name, **trigger):
    log, out = LOG / f"{name}.log", LOG / f"{name}-out"
    log.touch()
    query = (
        spark.readStream.format("numbers").option("log", str(log)).load()
        .writeStream.format("json").option("path", str(out))
        .option("checkpointLocation", str(LOG / f"{name}-checkpoint")).trigger(**trigger).start()
    )
    query.processAllAvailable() if "processingTime" in trigger else query.awaitTermination(180)
    query.stop()
    rows = spark.read.schema("number int").json(str(out)).count()
    commits = log.read_text().split()
    print(f"{name}: {rows} rows in the sink, commit called for {commits or 'nothing'}", flush=True)
    return rows, commits


print("pyspark", pyspark.__version__)
steps = run("processingTime", processingTime="0 seconds")
all_now = run("availableNow", availableNow=True)
once = run("once", once=True)
again = run("once", once=True)
spark.stop()
sys.exit(0 if steps == (3, ["1", "2"]) and all_now == once == again == (1, []) else 1)
PY
mkdir "$folder/work"
PYSPARK_PYTHON="$folder/venv/bin/python" "$folder/venv/bin/python" "$folder/source.py" "$folder/work" 2>"$folder/err" || { status=$?; grep -v "^\s*at " "$folder/err" | tail -40; exit "$status"; }
