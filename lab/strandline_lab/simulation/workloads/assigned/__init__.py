"""A group whose coordinator assigns (KIP-848): its members, its topics, and what is judged of it."""
