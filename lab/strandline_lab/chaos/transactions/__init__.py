"""Clients of a round that write in transactions: some alone, some from what their group is given."""
