"""Decides which replica leads next."""
