"""What a consumer decides about its positions and fetches."""
