"""faithfulness@1: do the contexts support the answer's claims."""
