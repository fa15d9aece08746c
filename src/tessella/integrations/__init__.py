"""Adapters: from the models of other libraries to a `Recommender`. Import the one you need.

Each is a module named after its library. None of them is imported by ``import tessella``, and most import nothing
themselves: they read what a model holds. Where a library is needed and missing, one sentence says how to get it.
"""
