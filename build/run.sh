#!/usr/bin/env bash
# Starts what was built: the window where there is a display, else the headless backend,
# which prints a link that opens the interface in a browser of this computer.
set -euo pipefail
bin="$(cd "$(dirname "$0")" && pwd)/bin"
if [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then
  exec "$bin/helix-desktop" "$@"
fi
exec "$bin/helix" serve --link "$@"
