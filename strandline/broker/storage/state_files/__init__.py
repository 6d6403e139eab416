"""Small files beside the segments, each replaced as a whole."""
