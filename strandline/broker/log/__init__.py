"""The service `Log`: produce, fetch, offsets and metadata, for clients."""
