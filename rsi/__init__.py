"""Terminal-RSI, reproducible: five stages (Base, RSR-1, RPR-1, RSR-2, RPR-2) that turn a language model into a terminal agent."""

__version__ = "0.1.0"
