"""The machinery that runs the steps: concurrent calls, state, backpressure, metrics."""
