"""Figures of a study and of trained models."""
