"""Stochastic gradient descent: CUSGD++ and CULSH-MF ([004]), and ESGD ([003])."""
