#!/usr/bin/env bash
# Apache Kafka 4.4.0, InitProducerId with a producer's own id and epoch (KIP-360), sent again since its answer was lost.
#
# Guess before the run: the same request gets the same answer, an id and an epoch that is one higher, whatever the epoch
# is: the coordinator keeps the last epoch, and after the last epoch the last producer id, for just this.
#
# Seen: so it is at epoch 100, and at 32766, which is followed by a new producer id. The step from 32765 to 32766 sent
# again fails with UNKNOWN_SERVER_ERROR (-1), and so each time: a client whose connection broke just then cannot recover.
# Ours gives the same answer again at each epoch.
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
FIND, INIT = 10, 22
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


LINK, NAME, LAST = connect(), "payments", 32_766
call(FIND, 4, b"\1" + b"\2" + text(NAME) + b"\0")  # makes the coordinators' topic
producer = init(NAME)[1:]
seen = []
for epoch in (100, LAST - 1, LAST):
    while producer[1] < epoch:
        producer = init(NAME)[1:]
    first, again = init(NAME, producer), init(NAME, producer)
    print(f"from epoch {epoch}: error {first[0]}, " + ("the same id" if first[1] == producer[0] else "a new id")
          + f", epoch {first[2]}; again: " + ("the same answer" if again == first else f"error {again[0]}"))
    seen.append(again[0])
    producer = first[1:]
sys.exit(0 if seen == [0, -1, 0] else 1)
PY
python3 "$folder/probe.py" "$port"
