"""Spark without Java: stand-ins for what PySpark's API talks to, for jobs and sinks as their authors wrote them.

It needs PySpark as a library (``pip install 'headrace[spark]'``), and is imported only by what needs it.
"""
