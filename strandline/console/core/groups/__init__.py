"""What the pages of groups and stream applications show. Pure."""
