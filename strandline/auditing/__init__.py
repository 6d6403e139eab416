"""What clients saw of topics, held against the topics: what each check means, once, without any engine."""
