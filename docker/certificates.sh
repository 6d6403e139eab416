#!/bin/sh
# Makes what a secure cluster needs, in the folder $1: an authority and the cluster's identity for ZooKeeper, once;
# a certificate for each member and for the admin, anew each time, so that it renews them too. Further arguments
# are the names of members.
set -eu
umask 077
cd "$1"
shift

[ -e ca.pem ] || strandline security ca create .
for member in "$@"; do
    strandline security ca issue . "$member" --host "$member" --host localhost --host 127.0.0.1 \
        --host "${STRANDLINE_EXTERNAL_HOST:-localhost}"
done
strandline security ca issue . admin

if [ ! -e zookeeper-auth ]; then
    python -c 'import secrets; print("strandline:" + secrets.token_urlsafe(32))' > zookeeper-auth.new
    mv zookeeper-auth.new zookeeper-auth
fi

cat > client.toml <<END
security_protocol = "SSL"
ssl_cafile = "$PWD/ca.pem"
ssl_certfile = "$PWD/admin.pem"
ssl_keyfile = "$PWD/admin.key"
END
