"""WORTH: from checks to rewards (FDR, SPR and their baselines) and the reward-mass audit. Pure functions."""
