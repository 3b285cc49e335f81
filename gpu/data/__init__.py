"""What trainings read and make: ratings, parameters, models, and the figures and rules that follow from them."""
