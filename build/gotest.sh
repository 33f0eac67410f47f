#!/usr/bin/env bash
# Usage: gotest.sh PACKAGES [go test flag…]
# Runs the tests of PACKAGES, a list in one argument. A test that fails runs up to twice more by itself, as a
# browser suite does: a busy machine fails a test now and then. Those that pass then are added to
# build/bin/flaky, which make test shows at the end. A data race, a panic or more than five failures are final.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=$1
shift
mkdir -p build/bin
rerun=$(mktemp)
trap 'cat "$rerun" >> build/bin/flaky; rm -f "$rerun"' EXIT
"$GOTESTSUM" --format pkgname-and-test-fails --format-icons text --hide-summary skipped --jsonfile build/bin/tests.json \
  --rerun-fails=2 --rerun-fails-max-failures 5 --rerun-fails-run-root-test --rerun-fails-abort-on-data-race --rerun-fails-report "$rerun" \
  --packages "$packages" -- "$@"
