"""Facts about the disk below a folder, and calls for the whole of it, that only the kernel has."""
