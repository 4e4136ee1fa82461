"""App: use cases, and the wiring that lists every driver, action and workload."""
