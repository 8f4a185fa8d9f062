def answer():
    """A worker waits for a slow disk, and its result arrives after somebody else has taken over."""
    return """
incident: the-thumbnail-of-the-old-photo
source: our own queue, ticket 2107
what: A worker was stuck in a write to a full disk, and its result went over the newer one.
lease: 2.5
workers: resize-1, resize-2
tasks: photo-17
broken: without finish.generation
damage: stale finish accepted
0     | resize-1 | claim         | generation 1
0.25  | resize-2 | claim         | refused
2.5   | resize-2 | claim         | generation 2
2.75  | resize-1 | finish 1 done | refused
4.125 | resize-2 | finish 2 done | accepted
"""
