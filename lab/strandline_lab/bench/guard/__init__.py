"""`make bench-guard`: is a commit slower than main?"""
