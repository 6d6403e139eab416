"""Decisions about who leads next."""
