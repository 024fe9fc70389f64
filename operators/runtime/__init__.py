"""What runs the steps: concurrent calls, state, backpressure, metrics."""
