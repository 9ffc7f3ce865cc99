"""One module a revision, named by its number; a released one is never edited."""
