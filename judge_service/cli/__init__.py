"""The command line: a module a noun. Owns words, exit codes and what people read in a terminal; decides nothing."""
