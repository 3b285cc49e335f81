# One image for CPUs (the default target) and one for GPUs:
#   docker build --tag nearfield .
#   docker build --tag nearfield:gpu --target gpu .
# The base image can be pinned by digest: --build-arg PYTHON_IMAGE=python:3.13-slim-bookworm@sha256:…
ARG PYTHON_IMAGE=python:3.13-slim-bookworm

FROM ${PYTHON_IMAGE} AS base
ENV PATH=/opt/nearfield/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# Numba's parallel kernels need OpenMP, and its wheel does not include the runtime.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends libgomp1 \
 && rm -rf /var/lib/apt/lists/*

FROM base AS build-cpu
WORKDIR /build
COPY locks locks
# Installs only wheels whose hashes are in locks/. The tools that build our own wheel stay in this stage.
RUN python -m venv /opt/build \
 && python -m venv /opt/nearfield \
 && /opt/build/bin/pip install --no-cache-dir --require-hashes --only-binary :all: --requirement locks/build.txt \
 && pip install --no-cache-dir --require-hashes --only-binary :all: --requirement locks/cpu.txt
COPY pyproject.toml README.md LICENSE ./
COPY LICENSES LICENSES
COPY deploy/wheel.py deploy/wheel.py
COPY gpu gpu
COPY service service
RUN /opt/build/bin/pip wheel --no-build-isolation --no-deps --no-index --wheel-dir dist . \
 && pip install --no-cache-dir --no-deps --no-index dist/*.whl \
 && pip check

FROM build-cpu AS build-gpu
RUN pip install --no-cache-dir --require-hashes --only-binary :all: --requirement locks/gpu.txt

FROM base AS runtime
ENV NEARFIELD_DATA=/data \
    NEARFIELD_HOST=0.0.0.0 \
    NUMBA_CACHE_DIR=/var/cache/nearfield
# A numeric user id, so that Kubernetes can see that it is not root (`runAsNonRoot`).
RUN useradd --uid 10001 --home-dir /data --no-create-home nearfield \
 && install --directory --owner=nearfield --mode=0700 /data \
 && install --directory --owner=nearfield --mode=0755 /var/cache/nearfield
WORKDIR /data
EXPOSE 8000
VOLUME /data
STOPSIGNAL SIGTERM
# Checks readiness, not only liveness: a replica should get no requests while it reads ratings. On another kind of
# processor than that of the build, kernels compile first. This takes a minute on two cores if models of all kinds are
# live, and longer on slow cores.
HEALTHCHECK --interval=10s --timeout=3s --start-period=300s --retries=3 \
  CMD ["python", "-c", "import os, ssl, urllib.request as r; tls = r.HTTPSHandler(context=ssl._create_unverified_context()); r.build_opener(r.ProxyHandler({}), tls).open(f\"http{'s' * bool(os.environ.get('NEARFIELD_TLS_CERTIFICATE'))}://127.0.0.1:8000/health/ready\", timeout=2)"]
CMD ["nearfield", "serve"]

FROM runtime AS gpu
COPY --from=build-gpu /opt/nearfield /opt/nearfield
USER 10001
RUN python -m nearfield.service.cli.warm

FROM runtime AS cpu
COPY --from=build-cpu /opt/nearfield /opt/nearfield
USER 10001
# Compiles the kernels into the image for the processor of the build; another kind of processor compiles at its first start.
RUN python -m nearfield.service.cli.warm
