package scheduler

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"helix/backend/scheduler/cadence"
)

// SystemZone returns the IANA name of the operating system's time zone, or UTC if none is set.
func SystemZone() string {
	if name := strings.TrimPrefix(os.Getenv("TZ"), ":"); name != "" {
		if _, err := cadence.Zone(name); err == nil {
			return name
		}
	}
	if path, err := filepath.EvalSymlinks("/etc/localtime"); err == nil {
		if _, name, ok := strings.Cut(filepath.ToSlash(path), "zoneinfo/"); ok {
			if _, err := cadence.Zone(name); err == nil {
				return name
			}
		}
	}
	if b, err := os.ReadFile("/etc/timezone"); err == nil {
		if name := strings.TrimSpace(string(b)); name != "" {
			if _, err := cadence.Zone(name); err == nil {
				return name
			}
		}
	}
	if name := time.Local.String(); strings.Contains(name, "/") {
		if _, err := cadence.Zone(name); err == nil {
			return name
		}
	}
	return "UTC"
}

// zonePrint returns a fingerprint of a zone's clock changes from 2000 to 2050, to detect new zone data.
func zonePrint(name string) string {
	if name == "" || name == "UTC" {
		return "UTC"
	}
	loc, err := cadence.Zone(name)
	if err != nil {
		return ""
	}
	h := sha256.New()
	end := time.Date(2050, 1, 1, 0, 0, 0, 0, time.UTC)
	for at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC); at.Before(end); {
		_, off := at.In(loc).Zone()
		fmt.Fprintf(h, "%d %d\n", at.Unix(), off)
		_, until := at.In(loc).ZoneBounds()
		if until.IsZero() || !until.After(at) {
			break
		}
		at = until
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
