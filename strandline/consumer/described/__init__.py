"""What is known of groups from outside: for those who look at them."""
