def answer():
    return "release.owner", "release.generation"
