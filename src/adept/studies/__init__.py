"""Studies: methods × tasks × seeds as data, carried out by local processes or a Ray cluster."""
