"""Pages for people: plain HTML, nothing from another host, a strict content security policy."""
