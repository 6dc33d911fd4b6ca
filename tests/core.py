"""placeholder"""


def has(name):
    return name.startswith("floors/")
