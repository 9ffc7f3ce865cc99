"""Keys and roles as pure functions: no HTTP, no database, no clock of its own."""
