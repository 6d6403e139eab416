"""Rights: an operation on a type of resource, as the tables of calls and the handlers name them."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.security.acls import Operation, ResourceType


class Right(NamedTuple):
    operation: Operation
    of: ResourceType

    def __str__(self) -> str:
        return f"{self.operation.name} {self.of.name}"


READ_TOPIC: Final = Right(Operation.READ, ResourceType.TOPIC)
WRITE_TOPIC: Final = Right(Operation.WRITE, ResourceType.TOPIC)
CREATE_TOPIC: Final = Right(Operation.CREATE, ResourceType.TOPIC)
DELETE_TOPIC: Final = Right(Operation.DELETE, ResourceType.TOPIC)
ALTER_TOPIC: Final = Right(Operation.ALTER, ResourceType.TOPIC)
DESCRIBE_TOPIC: Final = Right(Operation.DESCRIBE, ResourceType.TOPIC)
DESCRIBE_TOPIC_CONFIGS: Final = Right(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC)
ALTER_TOPIC_CONFIGS: Final = Right(Operation.ALTER_CONFIGS, ResourceType.TOPIC)

READ_GROUP: Final = Right(Operation.READ, ResourceType.GROUP)
DESCRIBE_GROUP: Final = Right(Operation.DESCRIBE, ResourceType.GROUP)
DELETE_GROUP: Final = Right(Operation.DELETE, ResourceType.GROUP)
DESCRIBE_GROUP_CONFIGS: Final = Right(Operation.DESCRIBE_CONFIGS, ResourceType.GROUP)
ALTER_GROUP_CONFIGS: Final = Right(Operation.ALTER_CONFIGS, ResourceType.GROUP)

WRITE_TRANSACTIONAL_ID: Final = Right(Operation.WRITE, ResourceType.TRANSACTIONAL_ID)
DESCRIBE_TRANSACTIONAL_ID: Final = Right(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)

CREATE_CLUSTER: Final = Right(Operation.CREATE, ResourceType.CLUSTER)
ALTER_CLUSTER: Final = Right(Operation.ALTER, ResourceType.CLUSTER)
DESCRIBE_CLUSTER: Final = Right(Operation.DESCRIBE, ResourceType.CLUSTER)
CLUSTER_ACTION: Final = Right(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
DESCRIBE_CLUSTER_CONFIGS: Final = Right(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
ALTER_CLUSTER_CONFIGS: Final = Right(Operation.ALTER_CONFIGS, ResourceType.CLUSTER)
IDEMPOTENT_WRITE: Final = Right(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
