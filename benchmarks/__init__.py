"""Measurements that docs quote: run one with `python -m benchmarks.NAME`."""
