"""citation_support@1: do the cited passages support the statements that cite them."""
