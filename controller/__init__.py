"""The controller: an admin service, never on the way of an election, a produce or a fetch (DESIGN §2)."""
