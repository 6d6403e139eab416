"""Answers requests about consumer groups with the coordinators of this broker."""
