#!/bin/bash
# Runs the programs for Windows under Wine, with a prefix of its own: the installer, what it registers, both
# programs without a window, and commands that store, search, back up and verify. The argument is the installer.
# The suites of Go cannot run: Wine does not implement how Go removes folders.
set -euo pipefail
setup=$(realpath "$1")
cd "$(dirname "$0")/../../.."
wine=$(command -v wine64 || echo /usr/lib/wine/wine64)
export WINEPREFIX WINEDEBUG=-all WINEDLLOVERRIDES="winemenubuilder.exe=d"
WINEPREFIX=$(mktemp -d)
trap '"${wine%64}server" -k 2>/dev/null || true; rm -rf "$WINEPREFIX"' EXIT
"$wine" wineboot -i >/dev/null 2>&1 || true
system=$WINEPREFIX/drive_c/windows/system32
mkdir -p "$system"
[ -e "$system/bcryptprimitives.dll" ] || x86_64-w64-mingw32-gcc -shared -O2 -o "$system/bcryptprimitives.dll" build/package/windows/bcryptprimitives.c -ladvapi32
"$wine" "$setup" /S '/D=C:\Helix'
home=$WINEPREFIX/drive_c/Helix
"$wine" reg query 'HKCU\Software\Classes\helix\shell\open\command' | grep -qF 'helix-desktop.exe" "%1"' || { echo "the helix:// scheme is not registered"; exit 1; }
"$wine" reg query 'HKCU\Software\Microsoft\Windows\CurrentVersion\Run' /v org.project-helix.desktop >/dev/null 2>&1 && { echo "the installer turned on autostart"; exit 1; }
"$wine" "$home/helix.exe" --version
"$wine" "$home/helix-desktop.exe" --version
helix() { "$wine" "$home/helix.exe" --data-dir 'C:\data' "$@"; }
helix rpc tools.create '{"name":"Under Wine","code":"export default () => 6 * 7"}' >/dev/null
[ "$(helix tool run "Under Wine" | tr -d '\r')" = 42 ] || { echo "the tool did not run"; exit 1; }
echo "We planted the pear tree behind the shed." > "$WINEPREFIX/drive_c/notes.txt"
helix memory import 'C:\notes.txt' >/dev/null
helix memory search "pear tree" | grep -q "behind the shed" || { echo "the memory was not found"; exit 1; }
helix backup create >/dev/null
helix audit verify
"$wine" "$home/uninstall.exe" /S _?='C:\Helix'
[ ! -e "$home/helix.exe" ] || { echo "the programs were not removed"; exit 1; }
[ -e "$WINEPREFIX/drive_c/data/data/helix.db" ] || { echo "the data was removed"; exit 1; }
echo "the programs for Windows work"
