"""Checks of what a run leaves behind, beyond those that users have in `strandline.auditing`. Pure."""
