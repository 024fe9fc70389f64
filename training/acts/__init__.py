"""Train the models of acts from annotated absences."""
