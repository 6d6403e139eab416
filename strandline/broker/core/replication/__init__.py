"""Decisions of a led partition: commits, the ISR, epochs, producers and reassignment."""
