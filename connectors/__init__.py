"""The outside world: files and datasets, the LanceDB history, embedders."""
