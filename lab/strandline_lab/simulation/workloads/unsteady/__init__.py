"""Topics whose logs do not only grow: they are made anew under their names, or lose their ends."""
