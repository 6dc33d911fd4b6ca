"""What becomes of the tests where TRIREME_TEST_DEVICE names a device (parity.py)."""
from parity import DEVICE, DEVICE_HAS_BF16


def of_cpu_alone(item):
    """It is about what the cpu device does, or about a type that only that one has."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    other_type = parameters.get("precision") == "bf16" and not DEVICE_HAS_BF16
    return item.get_closest_marker("cpu") is not None or other_type


def pytest_configure(config):
    config.addinivalue_line("markers", "cpu: about what the cpu device does; left out where TRIREME_TEST_DEVICE names another")


def pytest_collection_modifyitems(config, items):
    left_out = [item for item in items if DEVICE and of_cpu_alone(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
