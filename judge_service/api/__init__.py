"""JSON over HTTP under /v1: a router a noun. Parses requests into domain objects and answers with them."""
