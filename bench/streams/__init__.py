"""Measurements of stream applications."""
