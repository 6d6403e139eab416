"""The sources: from topics to DataFrames."""
