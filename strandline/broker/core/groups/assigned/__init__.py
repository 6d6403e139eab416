"""Members whose coordinator assigns (KIP-848): their heartbeats, timers and answers."""
