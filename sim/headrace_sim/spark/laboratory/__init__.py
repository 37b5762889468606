"""The laboratory: a program as it is, on the real Spark, which dies at every point at which it can.

One Java runs Spark for all trials (`jvm`), of which `hosts` is the host. Each attempt is a fork of this process (`driver`) that
runs the program with PySpark's own classic client, and dies as by SIGKILL. What it reads and writes is redirected into its
trial (`places`, `inputs`), its effects are counted (`watched_frames` and `headrace_sim.spark.sinks`), and what it leaves is
read (`outputs`).
"""
