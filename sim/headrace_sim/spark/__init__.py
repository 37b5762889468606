"""Spark without Java: stand-ins for PySpark's backend, so that jobs and sinks run as their authors wrote them.

It needs PySpark as a library (``pip install 'headrace[spark]'``), and is imported only where needed.
"""
