"""Compaction: which segments to rewrite, rewriting them, and installing the result."""
