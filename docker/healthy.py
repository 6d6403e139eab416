"""Exits with status 0 if the broker or controller on port 9092 of this container reports that it serves."""

import sys

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

with grpc.insecure_channel("127.0.0.1:9092") as channel:
    try:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=2)
    except grpc.RpcError as error:
        sys.exit(f"no answer: {error.details()}")
if answer.status != health_pb2.HealthCheckResponse.SERVING:
    sys.exit("it reports that it is not serving")
