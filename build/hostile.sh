#!/usr/bin/env bash
# Runs backend/sandbox/testdata/hostile and prints a line for each case. Both memory paths
# are built first; every combination is run, also when one before it missed something.
#   ONLY=regexp   only cases with such names
#   TIERS="t0"    only some of t0 t1; MODES="plain" only some of plain crosscheck
#   PATHS="cow"   only some of cow copy
#   HELIX_TIMED=1 also fail when something takes too long: for a machine without other work
#   HELIX_LONG=1  also the cases that take long
set -u
cd "$(dirname "$0")/.."
go=${GO:-go}
bin=build/bin
mkdir -p "$bin"
declare -A tags=([cow]="" [copy]="-tags=portable")
failed=0
for path in ${PATHS:-cow copy}; do
  CGO_ENABLED=0 $go test -c ${tags[$path]} -o "$bin/hostile-$path.test" ./backend/sandbox || exit 1
done
for path in ${PATHS:-cow copy}; do
  (cd backend/sandbox && HELIX_HOSTILE=1 HELIX_HOSTILE_ONLY="${ONLY:-}" HELIX_HOSTILE_TIERS="${TIERS:-}" HELIX_HOSTILE_MODES="${MODES:-}" \
    "../../$bin/hostile-$path.test" -test.run '^TestHostileTable$' -test.timeout 4h) || failed=1
done
exit $failed
