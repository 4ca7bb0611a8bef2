"""Process trees of jobs: the supervisor and its namespaces, CRIU, identifiers."""
