"""The measurements behind docs/performance.md: one module a table, run by `nearfield bench`."""
