"""Stores in a trial, and the clients that answer in the place of those that speak to real ones."""
