#!/usr/bin/env bash
# Apache Kafka 4.4.0, InitProducerId with a producer's own id and epoch (KIP-360), by a producer that is fenced.
#
# Guess before the run: a producer that another one has replaced (same transactional id, higher epoch) gets
# PRODUCER_FENCED (90), and the transaction of its successor goes on: that is what the epoch in the request is for.
#
# Seen: while the successor has no transaction open, so it is. While it has one, the coordinator looks at the producer
# id only, answers CONCURRENT_TRANSACTIONS (51), aborts the successor's transaction, and raises the epoch; asked again,
# it says 90. The successor did nothing wrong, and is fenced as well: its commit gets 90. A producer that comes back
# from a long pause and recovers, as clients do by this request after some errors, takes its successor down. Our
# coordinator compares the epoch first.
#
# Needs Java 17 and Maven on PATH. Exits with 1 if Kafka behaves otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "$(cat "$folder/pid" 2>/dev/null)" 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cat > "$folder/pom.xml" <<'XML'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>finding</groupId><artifactId>kafka</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>4.4.0</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
XML
(cd "$folder" && mvn -q -B dependency:copy-dependencies -DoutputDirectory=lib -DincludeScope=runtime >maven.log)
read -r port controller < <(python3 -c 'import socket
a, b = socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))
print(a.getsockname()[1], b.getsockname()[1])')
cat > "$folder/node.properties" <<EOP
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$controller
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
log.dirs=$folder/data
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
EOP
quiet=-Dorg.slf4j.simpleLogger.defaultLogLevel=error
java "$quiet" -cp "$folder/lib/*" kafka.tools.StorageTool format -t AAAAAAAAAAAAAAAAAAAAAQ -c "$folder/node.properties" >"$folder/format.log" 2>&1
java "$quiet" -Xmx512m -cp "$folder/lib/*" kafka.Kafka "$folder/node.properties" >"$folder/node.log" 2>&1 &
echo $! > "$folder/pid"
cat > "$folder/probe.py" <<'PY'
import socket
import struct
import sys
import time

PORT = int(sys.argv[1])
FIND, INIT, ADD, END, CREATE = 10, 22, 24, 26, 19
NOT_READY = (14, 15, 16, 51)


def text(value):  # a compact string; shorter than 127 bytes
    return bytes([len(value) + 1]) + value.encode()


def connect():
    deadline = time.monotonic() + 120
    while True:
        try:
            return socket.create_connection(("127.0.0.1", PORT), timeout=30)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def read(count):
    data = b""
    while len(data) < count:
        part = LINK.recv(count - len(data))
        assert part, "the connection was closed"
        data += part
    return data


def call(key, version, body):  # the body of the answer, after its flexible header
    request = struct.pack(">hhih", key, version, 1, 1) + b"f\0" + body
    LINK.sendall(struct.pack(">i", len(request)) + request)
    return read(*struct.unpack(">i", read(4)))[5:]


def until_ready(ask):
    deadline = time.monotonic() + 120
    while (answer := ask())[0] in NOT_READY and time.monotonic() < deadline:
        time.sleep(0.05)
    return answer


def init_once(name, producer=(-1, -1)):  # InitProducerId 4: error, or 0 with producer id and epoch
    answer = call(INIT, 4, text(name) + struct.pack(">iqh", 60_000, *producer) + b"\0")
    error, *identity = struct.unpack(">hqh", answer[4:16])
    return (error, *identity) if error == 0 else (error,)


def init(name, producer=(-1, -1)):
    return until_ready(lambda: init_once(name, producer))


def add(name, producer):  # AddPartitionsToTxn 3, partition 0 of the topic: error
    body = text(name) + struct.pack(">qh", *producer) + b"\2" + text(TOPIC) + b"\2" + struct.pack(">i", 0) + b"\0\0"
    return until_ready(lambda: struct.unpack_from(">h", call(ADD, 3, body), 4 + 1 + 1 + len(TOPIC) + 1 + 4))


def end(name, producer, commit):  # EndTxn 5: error, or 0 with the next producer id and epoch
    def ask():
        answer = call(END, 5, text(name) + struct.pack(">qh?", *producer, commit) + b"\0")
        error, *identity = struct.unpack(">hqh", answer[4:16])
        return (error, *identity) if error == 0 else (error,)

    return until_ready(ask)


def create():  # CreateTopics 5, of one partition
    body = b"\2" + text(TOPIC) + struct.pack(">ih", 1, 1) + b"\1\1\0" + struct.pack(">i?", 30_000, False) + b"\0"
    call(CREATE, 5, body)


def show(what, answer):
    print(f"{what}: {answer[0]}" + (f", epoch {answer[2]}" if len(answer) > 1 else ""))
    return answer


LINK, TOPIC = connect(), "orders"
create()
call(FIND, 4, b"\1" + b"\2" + text("any") + b"\0")  # makes the coordinators' topic
quiet, busy = {}, {}
for name, seen in (("quiet", quiet), ("busy", busy)):
    print(f"transactional id {name}")
    first = show("  the first producer begins", init(name))[1:]
    second = show("  its successor begins", init(name))[1:]
    if name == "busy":
        show("  the successor opens a transaction", add(name, second))
    seen["at once"] = show("  the first recovers, with its own id and epoch", init_once(name, first))[0]
    seen["again"] = show("  and asks again", init(name, first))[0]
    if name == "quiet":
        show("  the successor opens a transaction", add(name, second))
    seen["commit"] = show("  the successor commits", end(name, second, True))[0]
sys.exit(0 if list(quiet.values()) == [90, 90, 0] and list(busy.values()) == [51, 90, 48] else 1)
PY
python3 "$folder/probe.py" "$port"
