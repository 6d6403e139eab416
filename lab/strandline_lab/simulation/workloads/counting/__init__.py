"""A stream application that counts, and how its counts are judged. Tests with real processes use it too."""
