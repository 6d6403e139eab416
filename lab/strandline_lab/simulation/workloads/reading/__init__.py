"""What all groups that read have in common: members that assign, or a coordinator that does."""
