"""The settings of brokers and controllers, and of all that speaks to ZooKeeper.

`strandline.config.load` reads them from the environment and a file too.
"""
