"""Adapters that turn models of other libraries into a `Recommender`. Import the one you need.

Each adapter is a module named after its library. ``import tessella`` imports none of them, and most import no library
themselves: they read the arrays of a model. If a library is needed but missing, the error says how to install it.
"""
