"""What is asked of topics with Spark: functions from DataFrame to DataFrame, and what runs them."""
