"""The controller: an admin service that takes no part in elections, produce or fetch."""
