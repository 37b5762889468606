"""Who owns which key interval: the master and its balancing (MillWheel 7.1)."""
