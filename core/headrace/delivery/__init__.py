"""From a production to its consumer: routing by key, and retries until the ACK (MillWheel 6.1.1)."""
