package cadence

import (
	"strings"
	"time"
	_ "time/tzdata" // for systems without zone data

	"helix/backend/fault"
)

// Zone returns an IANA time zone. Local and abbreviations other than UTC are rejected, because
// their meaning depends on the place.
func Zone(name string) (*time.Location, error) {
	if name == "UTC" {
		return time.UTC, nil
	}
	if strings.Contains(name, "/") && !strings.HasPrefix(name, "/") && !strings.Contains(name, "..") {
		if loc, err := time.LoadLocation(name); err == nil {
			return loc, nil
		}
	}
	if guess := abbreviations[strings.ToUpper(name)]; guess != "" {
		return nil, fault.InvalidField("timezone", fault.CodeUnknownValue, "unknown time zone %s; did you mean %s?", name, guess)
	}
	return nil, fault.InvalidField("timezone", fault.CodeUnknownValue, "unknown time zone %q; write a name such as Europe/Berlin or UTC", name)
}

// abbreviations maps common abbreviations to the zone that is usually meant.
var abbreviations = map[string]string{
	"IST": "Asia/Kolkata", "CET": "Europe/Berlin", "CEST": "Europe/Berlin", "MEZ": "Europe/Berlin", "MET": "Europe/Berlin",
	"EET": "Europe/Helsinki", "WET": "Europe/Lisbon", "GMT": "Europe/London", "BST": "Europe/London", "MSK": "Europe/Moscow",
	"EST": "America/New_York", "EDT": "America/New_York", "EST5EDT": "America/New_York",
	"CST": "America/Chicago", "CDT": "America/Chicago", "MST": "America/Denver", "MDT": "America/Denver",
	"PST": "America/Los_Angeles", "PDT": "America/Los_Angeles", "BRT": "America/Sao_Paulo",
	"JST": "Asia/Tokyo", "KST": "Asia/Seoul", "SGT": "Asia/Singapore", "HKT": "Asia/Hong_Kong",
	"AEST": "Australia/Sydney", "AEDT": "Australia/Sydney", "NZST": "Pacific/Auckland", "NZDT": "Pacific/Auckland",
	"HST": "Pacific/Honolulu", "Z": "UTC", "LOCAL": "UTC",
}

// regime is a period with a constant offset from UTC, in seconds of Unix time.
type regime struct {
	from, until int64 // until is exclusive
	offset      int64
}

const (
	startOfTime = -1 << 60
	endOfTime   = 1 << 60
)

func regimeAt(t int64, loc *time.Location) regime {
	at := time.Unix(t, 0).In(loc)
	_, off := at.Zone()
	r := regime{startOfTime, endOfTime, int64(off)}
	from, until := at.ZoneBounds()
	if !from.IsZero() {
		r.from = from.Unix()
	}
	if !until.IsZero() {
		r.until = until.Unix()
	}
	// For times far in the future the library ends a period at the end of some leap years, even
	// without a change, and again when asked about that second.
	for range 4 {
		if r.until > t && (r.until == endOfTime || offsetAt(r.until, loc) != r.offset) {
			break
		}
		beyond := time.Unix(max(r.until, t)+2*86400, 0).In(loc)
		if _, until := beyond.ZoneBounds(); until.IsZero() {
			r.until = endOfTime
		} else {
			r.until = until.Unix()
		}
	}
	return r
}

func offsetAt(t int64, loc *time.Location) int64 {
	_, off := time.Unix(t, 0).In(loc).Zone()
	return int64(off)
}

// widest is greater than any clock change plus its offset: a civil time is less than this
// away from its instant.
const widest = 36 * 3600

// instant returns when the clocks of loc show the civil time w: the first time if they show it
// twice, and the first instant after the gap if they skip it.
func instant(w int64, loc *time.Location) (at int64, note string) {
	r := regimeAt(w-widest, loc)
	if r.until-w > widest {
		return w - r.offset, ""
	}
	for {
		if t := w - r.offset; t < r.until {
			if t < r.from {
				return r.from, NoteGap
			}
			next := regimeAt(r.until, loc)
			if r.until < endOfTime && w-next.offset >= r.until && next.offset < r.offset {
				return t, NoteOverlapFirst
			}
			return t, ""
		}
		r = regimeAt(r.until, loc)
	}
}

// civil returns the civil time in loc at t.
func civil(t int64, loc *time.Location) int64 { return t + regimeAt(t, loc).offset }

// nextInstant returns the first instant after t at which the cron expression is due in loc.
func (c *cron) nextInstant(t int64, loc *time.Location) (int64, string, bool) {
	if c.everyHour {
		return c.nextRunning(t, loc)
	}
	w := civil(t, loc)
	for {
		var ok bool
		if w, ok = c.next(w); !ok {
			return 0, "", false
		}
		// In the second pass of an overlap, the times of the first pass are over.
		if at, note := instant(w, loc); at > t {
			return at, note, true
		}
	}
}

// nextRunning is nextInstant for expressions that are due in both passes of an overlap.
func (c *cron) nextRunning(t int64, loc *time.Location) (int64, string, bool) {
	for first := true; ; first = false {
		r := regimeAt(t, loc)
		from := t
		if !first {
			from-- // include the first instant of a regime
		}
		w, ok := c.next(from + r.offset)
		if !ok {
			return 0, "", false
		}
		if at := w - r.offset; at < r.until {
			return at, passNote(w, at, r, loc), true
		}
		t = r.until
	}
}

// passNote returns the note for a time that is shown twice.
func passNote(w, at int64, r regime, loc *time.Location) string {
	if r.from > startOfTime && at-r.from < widest {
		before := regimeAt(r.from-1, loc)
		if w-before.offset < r.from {
			return NoteOverlapBoth
		}
	}
	if r.until < endOfTime && r.until-at < widest {
		after := regimeAt(r.until, loc)
		if w-after.offset >= r.until {
			return NoteOverlapBoth
		}
	}
	return ""
}
