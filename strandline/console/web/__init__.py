"""The pages, and the server that gives them to browsers."""
