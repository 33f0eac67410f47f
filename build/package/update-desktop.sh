#!/bin/sh
# After install and removal: lets desktops find the helix:// scheme. Both tools are optional.
if command -v update-desktop-database >/dev/null; then update-desktop-database -q /usr/share/applications || true; fi
if command -v gtk-update-icon-cache >/dev/null; then gtk-update-icon-cache -q /usr/share/icons/hicolor || true; fi
