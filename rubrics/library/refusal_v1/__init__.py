"""refusal@1: was it right to answer, or to abstain."""
