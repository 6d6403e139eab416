"""The parts that producer, consumer and admin client share: metadata, leaders, connections and retries."""
