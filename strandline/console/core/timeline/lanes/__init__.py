"""What changes over time, in memory that is bounded, and how it is drawn at the width of a view."""
