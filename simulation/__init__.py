"""The outside world of brokers, controllers and clients, in one thread, on virtual time, from one seed.

The services are the real ones, unchanged: each gets a `strandline.host.Host` whose clock, files, network and
ZooKeeper are played here. The same seed gives the same run, on every machine with the same versions
of strandline, Python and the packages it uses.
"""
