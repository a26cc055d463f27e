"""A tiny run of each framework, as the tests of all integrations need it."""
