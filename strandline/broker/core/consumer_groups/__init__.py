"""Groups whose coordinator assigns (KIP-848): pure decisions, and the records that keep them.

A room of values and rules. It knows no request of Kafka's port, no timer and no log: `broker/core/groups`
hands requests in, starts timers, and has the records written.
"""
