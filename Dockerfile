# docker build -t peacrab .
# docker run -d --name peacrab --restart unless-stopped -v peacrab:/home/peacrab \
#     --security-opt no-new-privileges --security-opt seccomp=packaging/seccomp.json --log-opt max-size=10m \
#     -e TELEGRAM_BOT_TOKEN -e ANTHROPIC_API_KEY peacrab
# docker exec peacrab peacrab pair approve CODE

# rust-toolchain.toml is left out by .dockerignore: it pins what this image already has, and names
# components for development, which rustup would fetch here.
FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
# The dependencies are a layer of their own, which stays while Cargo.lock does. Tests and benches are not in the image's
# build, so the manifest does not name them here.
COPY Cargo.toml Cargo.lock ./
RUN sed -i '/^\[\[\(test\|bench\)\]\]/,/^$/d' Cargo.toml \
    && mkdir src \
    && echo 'fn main() {}' >src/main.rs \
    && touch src/lib.rs \
    && cargo build --profile dist --locked --bin peacrab \
    && rm -rf src target/dist/peacrab target/dist/deps/*peacrab* target/dist/.fingerprint/peacrab-*
COPY packaging/*.service packaging/
COPY workspace-template workspace-template
COPY src src
RUN cargo build --profile dist --locked --bin peacrab

# Not `scratch`, which the static program would do with: commands of the shell are the programs of this image.
FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates tzdata \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --create-home --home-dir /home/peacrab peacrab \
    && chmod 700 /home/peacrab
COPY --from=build /src/target/dist/peacrab /usr/local/bin/
COPY packaging/docker-entrypoint /usr/local/bin/
USER 10001:10001
ENV PEACRAB_HOME=/home/peacrab
WORKDIR /home/peacrab
VOLUME /home/peacrab
STOPSIGNAL SIGTERM
# Fails while the agent loop is stuck or the store cannot write; it answers within 15 seconds.
HEALTHCHECK --interval=60s --timeout=20s --start-period=30s CMD ["peacrab", "status"]
ENTRYPOINT ["docker-entrypoint"]
CMD ["run"]
