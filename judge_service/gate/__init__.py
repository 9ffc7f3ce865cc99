"""The HTTP border: request ids, limits, keys, permissions, strict JSON, problem details. Knows no noun of the API."""
