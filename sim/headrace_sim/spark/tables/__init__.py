"""The model of tables: what ``df.write``, SQL statements and ``DeltaTable`` do to them, and what reads of them give."""
