"""The machine: clock, files, disks, descriptors, and how a process ends."""
