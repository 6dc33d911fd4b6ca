"""What becomes of the tests where TRIREME_TEST_DEVICE names a device (parity.py), and where a share of them is drawn (drawn.py)."""
from drawn import leave_drawn
from parity import DEVICE, DEVICE_HAS_BF16


def of_cpu_alone(item):
    """It is about what the cpu device does, or about a type that only that one has."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    other_type = parameters.get("precision") == "bf16" and not DEVICE_HAS_BF16
    return item.get_closest_marker("cpu") is not None or other_type


def pytest_configure(config):
    config.addinivalue_line("markers", "cpu: about what the cpu device does; left out where TRIREME_TEST_DEVICE names another")
    config.addinivalue_line("markers", "drawn(every): one in so many of the test's cases is run (drawn.py)")


def pytest_collection_modifyitems(config, items):
    left_out = {item for item in items if DEVICE and of_cpu_alone(item)}
    left_out |= leave_drawn([item for item in items if item not in left_out])
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]
