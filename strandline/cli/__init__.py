"""The command line: one file a family of commands. Nothing heavy is imported before a command needs it."""
