#!/bin/bash
# Installs the packages given as arguments, oldest first, as root on this machine: runs each, keeps
# the data over the upgrade, removes the last and checks that only data is left.
set -euo pipefail
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT
export DBUS_SESSION_BUS_ADDRESS=disabled:
owned() { for f in /usr/bin/helix /usr/bin/helix-desktop /usr/share/applications/org.project-helix.desktop.desktop /usr/share/icons/hicolor/scalable/apps/org.project-helix.desktop.svg /usr/share/doc/helix; do [ -e "$f" ] && echo "$f"; done; true; }
[ -z "$(owned)" ] || { echo "a Helix is installed already:"; owned; exit 1; }
first=yes
for deb in "$@"; do
	dpkg -i "$deb"
	helix-desktop --version
	helix --version
	[ "$(XDG_DATA_DIRS=/usr/share xdg-mime query default x-scheme-handler/helix)" = org.project-helix.desktop.desktop ] || { echo "the helix:// scheme is not registered"; exit 1; }
	if [ $first = yes ]; then
		helix --data-dir "$data" rpc tools.create '{"name":"Before the upgrade","code":"export default () => 1"}' >/dev/null
	fi
	helix --data-dir "$data" rpc tools.list '{}' | grep -q "Before the upgrade" || { echo "the data is gone"; exit 1; }
	first=no
done
dpkg --purge helix
[ -z "$(owned)" ] || { echo "left behind:"; owned; exit 1; }
[ -e "$data/data/helix.db" ] || { echo "the data was removed"; exit 1; }
echo "packages work"
