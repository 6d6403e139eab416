"""What one leadership uses: its writes of the ISR, its part in a reassignment, its timer."""
