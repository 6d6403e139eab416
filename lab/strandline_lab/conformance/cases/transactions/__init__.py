"""Transactional producers, from their first request to their last, and those that read what they wrote."""
