"""What no framework can make good: findings about the user's code."""
