"""Train the models that choose the evidence of gaps."""
