"""Compares clients' histories with topics. It defines each check once, independent of any engine."""
