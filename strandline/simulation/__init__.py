"""A cluster in one thread, on virtual time, in a world that one seed decides: for the tests of users and of
strandline.

The services are the real ones, unchanged: each gets a `strandline.host.Host` whose clock, files, network and
ZooKeeper are played by `engine`. The same seed gives the same run, on every machine with the same versions
of strandline, Python and the packages it uses. `strandline.testing` is what a user's test imports.
"""
