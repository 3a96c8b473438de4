#!/bin/sh
# Installs Peacrab from the folder of a release: packaging/install.sh URL [FOLDER]
#
# URL is where SHA256SUMS and the programs are, such as https://example.com/peacrab. The program comes to FOLDER:
# /usr/local/bin for root, ~/.local/bin for others. It is installed only if its sum is the one in SHA256SUMS. Of several
# versions there, the newest is installed. With the release's public key in $PEACRAB_PUBLIC_KEY, the signature
# SHA256SUMS.sig is checked first, which needs OpenSSL 3.
set -eu

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

url=${1:-}
[ -n "$url" ] || fail "name the address of the release, such as https://example.com/peacrab"
url=${url%/}
if [ -n "${2:-}" ]; then
    folder=$2
elif [ "$(id -u)" = 0 ]; then
    folder=/usr/local/bin
else
    folder=$HOME/.local/bin
fi

[ ! -d "$folder/peacrab" ] || fail "$folder/peacrab is a folder: name another place, such as $folder/bin"

[ "$(uname -s)" = Linux ] || fail "there are programs for Linux only"
case $(uname -m) in
    x86_64 | amd64) machine=x86_64 ;;
    aarch64 | arm64) machine=aarch64 ;;
    riscv64) machine=riscv64 ;;
    armv7* | armv8l) fail "there is no program for 32-bit ARM: install a 64-bit system" ;;
    *) fail "there is no program for $(uname -m): build it, as docs/install.md shows" ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fetch() {
    if command -v curl >/dev/null; then
        curl --fail --silent --show-error --location --output "$work/$1" "$url/$1"
    elif command -v wget >/dev/null; then
        wget --quiet --output-document="$work/$1" "$url/$1"
    else
        fail "curl or wget is needed"
    fi || fail "cannot fetch $url/$1"
}

fetch SHA256SUMS
if [ -n "${PEACRAB_PUBLIC_KEY:-}" ]; then
    fetch SHA256SUMS.sig
    # An Ed25519 key in the form that OpenSSL reads is these twelve bytes before the key.
    { printf '\060\052\060\005\006\003\053\145\160\003\041\000' && printf %s "$PEACRAB_PUBLIC_KEY" | base64 -d; } \
        >"$work/key" || fail "PEACRAB_PUBLIC_KEY is not Base64"
    base64 -d <"$work/SHA256SUMS.sig" >"$work/signature" || fail "the signature is not Base64"
    openssl pkeyutl -verify -pubin -keyform DER -inkey "$work/key" -rawin -in "$work/SHA256SUMS" \
        -sigfile "$work/signature" >/dev/null 2>&1 || fail "the signature of SHA256SUMS is not that of the key"
fi

# The names are peacrab-VERSION-MACHINE. `sort -V` has 1.0.0~rc1 before 1.0.0, and 1.0.0-rc1 behind it.
line=$(grep -E "^[0-9a-f]{64}  peacrab-[0-9A-Za-z.+~-]+-$machine\$" "$work/SHA256SUMS" |
    awk -v end="-$machine" '{
        version = substr($2, 9, length($2) - 8 - length(end))
        gsub(/-/, "~", version)
        print version "\t" $0
    }' | sort -V | tail -n 1 | cut -f 2) || true
[ -n "$line" ] || fail "the release has no program for $machine"
file=${line#*  }
fetch "$file"
(cd "$work" && printf '%s\n' "$line" | sha256sum -c --status -) ||
    fail "the sum of $file is not the one in SHA256SUMS: nothing was installed"

mkdir -p "$folder"
# Beside it first: a program that runs cannot be written to, but replaced.
install -m 755 "$work/$file" "$folder/.peacrab-new"
mv -f "$folder/.peacrab-new" "$folder/peacrab"
echo "Installed $file as $folder/peacrab."
case :$PATH: in
    *:"$folder":*) echo "Next: peacrab init" ;;
    *) echo "$folder is not in PATH. Next: $folder/peacrab init" ;;
esac
