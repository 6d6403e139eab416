#!/bin/sh
# Makes what a secure cluster needs: an authority and the cluster's identity for ZooKeeper, once; a certificate for the
# admin and for each member that the arguments name, anew each time, so that it renews them too. The authority's key
# stays in a folder of its own. Each member has a folder with its files, for the user of the image.
set -eu
umask 077
home=${FILES_HOME:-/var/lib/strandline}
owner=${FILES_OWNER:-10001:10001}
cd "$home/authority"

[ -e ca.pem ] || strandline security ca create .
if [ ! -e zookeeper-auth ]; then
    python -c 'import secrets; print("strandline:" + secrets.token_urlsafe(32))' > zookeeper-auth.new
    mv zookeeper-auth.new zookeeper-auth
fi

# Puts a file in place at once, for the member alone: give NAME SOURCE TARGET.
give() {
    cp "$2" "$home/members/$1/$3.new"
    chown "$owner" "$home/members/$1/$3.new"
    mv "$home/members/$1/$3.new" "$home/members/$1/$3"
}

for member in "$@" admin; do
    if [ "$member" = admin ]; then
        strandline security ca issue . admin
        folder=/var/lib/strandline/admin
    else
        strandline security ca issue . "$member" --host "$member" --host localhost --host 127.0.0.1 \
            --host "${STRANDLINE_EXTERNAL_HOST:-localhost}"
        folder=/var/lib/strandline/tls
    fi
    chmod 755 "$home/members/$member"
    cat > client.toml <<END
security_protocol = "SSL"
ssl_cafile = "$folder/ca.pem"
ssl_certfile = "$folder/member.pem"
ssl_keyfile = "$folder/member.key"
END
    give "$member" ca.pem ca.pem
    give "$member" "$member.key" member.key
    give "$member" "$member.pem" member.pem
    give "$member" client.toml client.toml
    case "$member" in
        broker-*|controller-*) give "$member" zookeeper-auth zookeeper-auth ;;
    esac
done
