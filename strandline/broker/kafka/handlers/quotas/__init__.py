"""Quotas of users, client ids and addresses."""
