"""Acts: what messages do: decide, take on a task, ask, answer, report news."""
