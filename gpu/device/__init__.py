"""The CUDA side of the engine: twins of `gpu/host/`, function for function. Its kernels are not written yet."""


def obstacle() -> str | None:
    """Why the device backend cannot run on this machine, or None where it can."""
    return "this version has no device kernels yet"
