"""Language models as the engine sees them: protocol, prompts, failures, budgets."""
