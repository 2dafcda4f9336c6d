"""The linear dynamical system, and the recurrent network that starts from it."""
