"""Calls and streams between simulated processes: flow, the client, the server."""
