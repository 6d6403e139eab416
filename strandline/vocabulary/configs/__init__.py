"""Configs that parts of a cluster have of their own, beside those of topics."""
