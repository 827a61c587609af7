"""Experiments of the papers that take whole trainings. `studies/` has the small ones."""
