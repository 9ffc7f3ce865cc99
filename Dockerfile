# The service with SQLite and the embedded engine. The model is not in the image: `judge-service models pull` puts it
# into the volume, and the service starts without it.
FROM python:3.12-slim AS build
WORKDIR /src
RUN python -m venv /opt/judge-service
COPY requirements.lock ./
RUN /opt/judge-service/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements.lock
COPY pyproject.toml README.md ./
COPY judge_service ./judge_service
COPY rubrics ./rubrics
COPY calibration ./calibration
RUN /opt/judge-service/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation .

FROM python:3.12-slim
# The embedded engine is linked against the system's OpenMP runtime.
RUN apt-get update && apt-get install --yes --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --uid 10001 judge && install -d -o judge -g judge /data
COPY --from=build /opt/judge-service /opt/judge-service
ENV PATH=/opt/judge-service/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    JUDGE_SERVICE_DATA_DIR=/data
USER judge
WORKDIR /data
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
ENTRYPOINT ["judge-service"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000"]
