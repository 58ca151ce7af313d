# Two stages: the first sets up and builds with the repository's own scripts; the second contains only the program
# and LibTorch, no build tools. For GPUs: --build-arg LIBTORCH=cuda
FROM debian:12-slim AS build
ARG LIBTORCH=cpu
ENV PIP_NO_CACHE_DIR=1
WORKDIR /opt/train_gpt
# The slow layers come first and depend only on the scripts that create them.
COPY scripts/setup.sh scripts/common.sh scripts/
RUN scripts/setup.sh --${LIBTORCH}
COPY . .
RUN scripts/build.sh -DTRAIN_GPT_TESTS=OFF && scripts/release.sh --stage /opt/train_gpt/release

FROM debian:12-slim
# Debian keeps only the newest build of a package, so a pinned version would soon be gone.
# hadolint ignore=DL3008
RUN apt-get update \
  && apt-get install -y --no-install-recommends lrzip tini \
  && rm -rf /var/lib/apt/lists/*
# LibTorch stays at the path that the program was linked against.
COPY --from=build /opt/train_gpt/.venv/lib /opt/train_gpt/.venv/lib
COPY --from=build /opt/train_gpt/release /opt/train_gpt
ENV TRAIN_GPT_LIBRARIES= PATH=/opt/train_gpt/build:$PATH
WORKDIR /workspace
RUN chown 10001:10001 /workspace
USER 10001:10001
ENTRYPOINT ["/usr/bin/tini", "--", "train_gpt"]
CMD ["--help"]
