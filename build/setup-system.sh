#!/usr/bin/env bash
# Installs the Debian or Ubuntu packages named as arguments, when any is missing. Without
# root it prints the one command to run. Go and Node.js are checked, not installed: the
# versions in stable distributions are too old.
set -euo pipefail

need() { # need NAME WANTED FOUND WHERE
  if [ "$(printf '%s\n%s\n' "$2" "${3:-0}" | sort -V | head -n1)" != "$2" ]; then
    echo "Helix needs $1 $2 or newer; found ${3:-none}. Get it from $4." >&2
    exit 1
  fi
}
need Go 1.26 "$(go env GOVERSION 2>/dev/null | sed 's/^go//')" https://go.dev/dl
need Node.js 20 "$(node --version 2>/dev/null | sed 's/^v//')" https://nodejs.org

if ! command -v dpkg-query >/dev/null; then
  echo "This is not Debian or Ubuntu: install the counterparts of these packages yourself: $*" >&2
  exit 0
fi
missing=()
for p in "$@"; do
  dpkg-query -W -f '${db:Status-Abbrev}' "$p" 2>/dev/null | grep -q '^ii' || missing+=("$p")
done
[ ${#missing[@]} -eq 0 ] && exit 0
cmd="apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends ${missing[*]}"
if [ "$(id -u)" -ne 0 ]; then
  echo "Some system packages are missing. Run this once, then repeat the command:" >&2
  echo "  sudo apt-get update && sudo $cmd" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get -o DPkg::Lock::Timeout=300 update -q
# shellcheck disable=SC2086
$cmd
