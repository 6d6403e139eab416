"""Measurements of the Spark pipeline."""
