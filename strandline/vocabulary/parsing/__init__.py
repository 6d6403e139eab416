"""Checked reads of input that is not trusted: binary fields, and JSON."""
