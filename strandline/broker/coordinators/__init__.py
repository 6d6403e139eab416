"""What coordinators on internal topics share: partitions from election to end, loading, writing, and the way
from a key to its coordinator. It knows neither groups nor transactions."""
