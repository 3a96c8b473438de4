# docker build -t peacrab .
# docker run -d --name peacrab --restart unless-stopped -v peacrab:/home/peacrab \
#     -e TELEGRAM_BOT_TOKEN -e ANTHROPIC_API_KEY peacrab
# docker exec peacrab peacrab pair approve CODE

# rust-toolchain.toml is left out by .dockerignore: it pins what this image already has, and names
# components for development, which rustup would fetch here.
FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --profile dist --locked --bin peacrab

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --create-home --home-dir /home/peacrab peacrab \
    && chmod 700 /home/peacrab
COPY --from=build /src/target/dist/peacrab /usr/local/bin/peacrab
USER 10001:10001
ENV PEACRAB_HOME=/home/peacrab
WORKDIR /home/peacrab
VOLUME /home/peacrab
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=60s --timeout=5s --start-period=10s CMD ["peacrab", "status"]
ENTRYPOINT ["peacrab"]
CMD ["run"]
