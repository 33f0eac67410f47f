#!/bin/bash
# Builds the programs for Windows into build/bin, with helix-desktop.exe's icon and manifest, and the
# installer. VERSION is the version of the package, LDFLAGS are the flags of both programs.
set -euo pipefail
cd "$(dirname "$0")/../../.."
here=build/package/windows bin=$PWD/build/bin
numbers=$(echo "${VERSION%%[-+]*}.0.0.0" | cut -d. -f1-4)
CGO_ENABLED=0 GOOS=windows GOARCH=amd64 go build -trimpath -ldflags "$LDFLAGS" -o "$bin/helix.exe" ./app/cmd/helix
resources=./helix_windows_amd64.syso # the linker takes it from the folder of the main package
trap 'rm -f "$resources"' EXIT
printf '#define NUMBERS %s\n#define TEXT_VERSION "%s"\n' "${numbers//./,}" "$VERSION" > "$bin/version.h"
x86_64-w64-mingw32-windres -I "$here" -I "$bin" -O coff -o "$resources" "$here/helix.rc"
CGO_ENABLED=1 CC=x86_64-w64-mingw32-gcc CXX=x86_64-w64-mingw32-g++ GOOS=windows GOARCH=amd64 \
	go build -tags desktop,production -trimpath -ldflags "$LDFLAGS -H windowsgui" -o "$bin/helix-desktop.exe" .
# Whatever else the program needs would be missing on somebody's computer.
imports=$(x86_64-w64-mingw32-objdump -p "$bin/helix-desktop.exe" | sed -n 's/.*DLL Name: //p' | tr A-Z a-z | sort | xargs)
[ "$imports" = "kernel32.dll msvcrt.dll" ] || { echo "helix-desktop.exe imports $imports" >&2; exit 1; }
makensis -V2 -DVERSION="$VERSION" -DNUMBERS="$numbers" -DBIN="$bin" -DLICENSE="$PWD/LICENSE" -DICON="$PWD/$here/helix.ico" -DOUT="$bin/helix_${VERSION}_windows_amd64.exe" "$here/installer.nsi"
ls -l "$bin/helix.exe" "$bin/helix-desktop.exe" "$bin/helix_${VERSION}_windows_amd64.exe"
