"""Jobs on topics: functions from DataFrame to DataFrame, and the functions that run them."""
