"""What all commands share: options, output, and how they end."""
