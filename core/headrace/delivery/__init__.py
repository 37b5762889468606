"""Delivery of productions to their consumers: routing by key, and retries until the ACK (MillWheel 6.1.1)."""
