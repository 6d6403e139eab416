#!/bin/bash
# Exit status 0 if this node of ZooKeeper takes sessions: alone, or as part of a quorum.
exec 3<> /dev/tcp/127.0.0.1/2181 && echo srvr >&3 && grep -q '^Mode: ' <&3
