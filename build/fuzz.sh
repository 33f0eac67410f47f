#!/usr/bin/env bash
# Runs every fuzz target of the backend for the given time (default 30s), one after another.
set -euo pipefail
time=${1:-30s}
go list -f '{{.Dir}} {{.ImportPath}}' ./backend/... | while read -r dir pkg; do
  grep -lsE '^func Fuzz' "$dir"/*_test.go >/dev/null || continue
  grep -hoE '^func (Fuzz[A-Za-z0-9_]+)' "$dir"/*_test.go | awk '{print $2}' | sort -u | while read -r f; do
    echo "== $pkg $f"
    # Minimizing an interesting input for the default minute looks like a hang.
    go test "$pkg" -run '^$' -fuzz "^$f\$" -fuzztime "$time" -fuzzminimizetime 10x </dev/null
  done
done
