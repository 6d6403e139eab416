"""What producer, consumer and admin share: who leads what, how to reach it, and when to try again."""
