"""What commands say of a result, for people and as JSON."""
