package cadence

import (
	"encoding/json"
	"strings"
	"time"

	"helix/backend/duration"
	"helix/backend/fault"
)

// The effects of a clock change on a due time.
const (
	NoteGap          = "gap_shifted"   // in a gap: due at the first instant after it
	NoteOverlapFirst = "overlap_first" // in an overlap: due the first time
	NoteOverlapBoth  = "overlap_both"  // in an overlap: due both times
)

// Type is the type of a Spec.
type Type string

// The types.
const (
	Cron     Type = "cron"
	Interval Type = "interval"
	Once     Type = "once"
)

// Spec is a cadence in its external form: {"type":"cron","expression":"0 9 * * 1-5",
// "timezone":"Europe/Berlin"}, {"type":"interval","everySecs":3600,"anchor":…} or
// {"type":"once","at":…}.
type Spec struct {
	Type       Type       `json:"type"`
	Expression string     `json:"expression,omitempty"` // five fields, or six with seconds first
	Timezone   string     `json:"timezone,omitempty"`   // IANA name
	EverySecs  int64      `json:"everySecs,omitempty"`
	Anchor     *time.Time `json:"anchor,omitempty"` // of an interval; nil: the creation time of the schedule
	At         *time.Time `json:"at,omitempty"`
}

// UnmarshalJSON also accepts every_secs for everySecs.
func (s *Spec) UnmarshalJSON(b []byte) error {
	type plain Spec
	var in struct {
		plain
		Old int64 `json:"every_secs"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*s = Spec(in.plain)
	if s.EverySecs == 0 {
		s.EverySecs = in.Old
	}
	return nil
}

// Cadence computes due times. It is safe for concurrent use.
type Cadence struct {
	spec   Spec
	cron   *cron
	loc    *time.Location
	anchor int64
	at     time.Time
}

// Due is one due time. Note is empty or one of the Note constants.
type Due struct {
	At   time.Time
	Note string
}

// CodeNever is the error code of a cadence without any due time.
const CodeNever = "never_due"

// maxEvery is the longest interval, in seconds.
const maxEvery = 100 * 366 * 86400

// New parses a spec. created is the anchor of an interval without one. least is the minimum time
// between two due times, 0 for no minimum. A cron expression that is never due is an error.
func New(s Spec, created time.Time, least time.Duration) (*Cadence, error) {
	c := &Cadence{spec: s}
	switch s.Type {
	case Cron:
		return c, c.readCron(created, least)
	case Interval:
		if s.EverySecs <= 0 || s.EverySecs > maxEvery {
			return nil, fault.InvalidField("everySecs", fault.CodeRange, "An interval has everySecs, a number of seconds above 0.")
		}
		if every := duration.Of(s.EverySecs, time.Second); every < least {
			return nil, fault.InvalidField("everySecs", fault.CodeRange, "shortest interval is %d s", int64(least/time.Second))
		}
		anchor := created
		if s.Anchor != nil {
			anchor = *s.Anchor
		}
		c.anchor = anchor.Unix()
		return c, nil
	case Once:
		if s.At == nil || s.At.IsZero() {
			return nil, fault.InvalidField("at", fault.CodeMissing, "A one-time schedule needs at.")
		}
		c.at = s.At.Truncate(time.Second)
		return c, nil
	}
	return nil, fault.InvalidField("type", fault.CodeUnknownValue, "The type of a cadence is cron, interval or once, not %q.", s.Type)
}

func (c *Cadence) readCron(created time.Time, least time.Duration) error {
	var err error
	if c.cron, err = parseCron(c.spec.Expression); err != nil {
		return err
	}
	if c.loc, err = Zone(c.spec.Timezone); err != nil {
		return err
	}
	if _, ok := c.Next(created); !ok {
		return fault.InvalidField("expression", CodeNever, "this date never occurs")
	}
	if c.cron.seconds && c.cron.closest() < int64(least/time.Second) {
		return fault.InvalidField("expression", fault.CodeRange, "shortest interval is %d s", int64(least/time.Second))
	}
	return nil
}

// closest returns the smallest number of seconds between two due times.
func (c *cron) closest() int64 {
	first, ok := c.timeOfDay(0)
	least, at := int64(86400), first
	for ok {
		var n int
		if n, ok = c.timeOfDay(at + 1); ok {
			least, at = min(least, int64(n-at)), n
		}
		if least == 1 {
			break
		}
	}
	// The last time of one day and the first of the next.
	return min(least, int64(86400-at+first))
}

// Spec returns the spec of the cadence.
func (c *Cadence) Spec() Spec { return c.spec }

// Next returns the first due time after t. ok is false if there is none.
func (c *Cadence) Next(t time.Time) (d Due, ok bool) {
	after := t.Unix() // due times are whole seconds, so the fraction is irrelevant
	switch c.spec.Type {
	case Cron:
		at, note, ok := c.cron.nextInstant(after, c.loc)
		if !ok {
			return Due{}, false
		}
		return Due{time.Unix(at, 0).UTC(), note}, true
	case Interval:
		k, _ := floorDiv(after-c.anchor, c.spec.EverySecs)
		return Due{At: time.Unix(c.anchor+(k+1)*c.spec.EverySecs, 0).UTC()}, true
	default:
		return Due{At: c.at.UTC()}, c.at.After(t)
	}
}

// Last returns the latest due time in (from, until]. ok is false if there is none. It takes a few
// dozen searches regardless of the number of due times in between.
func (c *Cadence) Last(from, until time.Time) (d Due, ok bool) {
	d, ok = c.Next(from)
	if !ok || d.At.After(until) {
		return Due{}, false
	}
	// Find a window before until that contains a due time, then bisect it.
	lo, hi := d.At, until
	for back := time.Minute; ; back *= 4 {
		start := until.Add(-back)
		if !start.After(lo) {
			break
		}
		if n, ok := c.Next(start); ok && !n.At.After(until) {
			d, lo = n, n.At
			break
		}
		hi = start
	}
	for {
		n, ok := c.Next(lo)
		if !ok || n.At.After(until) {
			return d, true
		}
		d, lo = n, n.At
		if mid := lo.Add(hi.Sub(lo) / 2); mid.After(lo) {
			if n, ok := c.Next(mid); ok && !n.At.After(until) {
				d, lo = n, n.At
			} else {
				hi = mid
			}
		}
	}
}

// Local returns t in the time zone of a cron expression, and in UTC for other cadences.
func (c *Cadence) Local(t time.Time) time.Time {
	if c.loc != nil {
		return t.In(c.loc)
	}
	return t.UTC()
}

// place returns the last part of a zone's name, for people.
func place(zone string) string {
	if i := strings.LastIndexByte(zone, '/'); i >= 0 {
		zone = zone[i+1:]
	}
	return strings.ReplaceAll(zone, "_", " ")
}
