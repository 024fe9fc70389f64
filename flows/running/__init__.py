"""Running a dataflow: jobs, processes, recovery, health, signals."""
