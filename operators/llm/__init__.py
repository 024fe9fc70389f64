"""Language models: the protocol, prompts, retries and token budgets."""
