"""Our own questions, a folder each: code beside what it writes."""
