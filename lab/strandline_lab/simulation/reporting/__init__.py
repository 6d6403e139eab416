"""What is made of many runs: each in a process of its own, a failing plan made smaller, and its page."""
