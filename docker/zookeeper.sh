#!/bin/sh
# Runs one node of ZooKeeper. ZOOKEEPER_SERVERS has the names of all nodes, in order, and ZOOKEEPER_ID says which of
# them this is, from 1; with one name it runs alone. ZOOKEEPER_HEAP is the most memory that it may take. With
# ZOOKEEPER_ENFORCED_SCHEME=digest a session is refused everything until it has shown an identity.
set -eu
home=/opt/zookeeper
data=/var/lib/zookeeper/data
configuration=/var/lib/zookeeper/zoo.cfg

# Sessions from 500 ms to 120 s, as strandline's settings allow.
cat > "$configuration" <<END
tickTime=250
initLimit=40
syncLimit=20
dataDir=$data
clientPort=2181
maxSessionTimeout=120000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=srvr,ruok
autopurge.purgeInterval=1
autopurge.snapRetainCount=3
quorumListenOnAllIPs=true
END

if [ -n "${ZOOKEEPER_ENFORCED_SCHEME:-}" ]; then
    echo "enforce.auth.enabled=true" >> "$configuration"
    echo "enforce.auth.schemes=$ZOOKEEPER_ENFORCED_SCHEME" >> "$configuration"
fi

set -- ${ZOOKEEPER_SERVERS:-}
if [ $# -gt 1 ]; then
    number=0
    for server in "$@"; do
        number=$((number + 1))
        echo "server.$number=$server:2888:3888" >> "$configuration"
    done
    echo "${ZOOKEEPER_ID:?says which of $* this is}" > "$data/myid"
fi

exec "$home/java/bin/java" \
    -Dlog4j2.configurationFile="$home/log4j2.properties" \
    -Xmx"${ZOOKEEPER_HEAP:-512m}" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
    -cp "$home/jars/*" org.apache.zookeeper.server.quorum.QuorumPeerMain "$configuration"
