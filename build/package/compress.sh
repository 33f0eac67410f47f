#!/bin/bash
# Compresses the content of a Debian package that was made without compression. The window of 128 MiB
# reaches from one program to the other, so that the parts that they share are stored once.
set -euo pipefail
deb=$(realpath "$1")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
ar x "$deb" data.tar
zstd -q -10 --long=27 data.tar
ar d "$deb" data.tar
ar q "$deb" data.tar.zst
