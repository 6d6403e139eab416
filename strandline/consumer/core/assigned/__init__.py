"""A member whose coordinator assigns (KIP-848)."""
