"""Exits with status 0 if the broker or controller on port 9092 of this container reports that it serves."""

import sys

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from strandline.adapters.tls.grpc_credentials import open_blocking_channel
from strandline.adapters.tls.pem import read_pem
from strandline.config.load import load
from strandline.config.security import ENCRYPTED
from strandline.config.services.listener import ListenerSettings

settings = load(ListenerSettings)  # of this process's environment, which is the service's
pem = read_pem(settings) if settings.security_protocol in ENCRYPTED else None
name = settings.advertised_host or settings.host
with open_blocking_channel("127.0.0.1:9092", pem, (("grpc.ssl_target_name_override", name),)) as channel:
    try:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=2)
    except grpc.RpcError as error:
        sys.exit(f"no answer: {error.details()}")
if answer.status != health_pb2.HealthCheckResponse.SERVING:
    sys.exit("it reports that it is not serving")
