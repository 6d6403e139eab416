"""Settings, in words for the one who sets them."""
