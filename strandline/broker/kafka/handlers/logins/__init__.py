"""Answers requests of logins."""
