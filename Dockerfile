# The service alone: no embedded server, no tools, no root.

FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY graph graph
COPY store store
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheel .
RUN python -m venv /opt/recallql \
 && /opt/recallql/bin/pip install --no-cache-dir /wheel/*.whl

FROM python:3.13-slim
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin recallql
COPY --from=build /opt/recallql /opt/recallql
ENV PATH=/opt/recallql/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    RECALLQL_HOST=0.0.0.0 \
    RECALLQL_PORT=8000
USER recallql
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
  CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(f'http://127.0.0.1:{os.environ[\"RECALLQL_PORT\"]}/health', timeout=2)"]
CMD ["recallql", "serve"]
