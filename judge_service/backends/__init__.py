"""How a model is asked: one module a backend, all behind one asynchronous method.

A backend turns a request into a completion and reports what it enforced. It knows no rubric, no policy, no store.
"""
