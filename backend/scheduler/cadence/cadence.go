package cadence

import (
	"encoding/json"
	"strings"
	"time"

	"helix/backend/duration"
	"helix/backend/fault"
)

// What a clock change does to a due time.
const (
	NoteGap          = "gap_shifted"   // the clocks skip it: due at the first instant after
	NoteOverlapFirst = "overlap_first" // the clocks show it twice: due the first time
	NoteOverlapBoth  = "overlap_both"  // the clocks show it twice: due both times
)

// Type says how a Spec is to be read.
type Type string

// The types.
const (
	Cron     Type = "cron"
	Interval Type = "interval"
	Once     Type = "once"
)

// Spec is a cadence as people write it: {"type":"cron","expression":"0 9 * * 1-5",
// "timezone":"Europe/Berlin"}, {"type":"interval","everySecs":3600,"anchor":…} or
// {"type":"once","at":…}.
type Spec struct {
	Type       Type       `json:"type"`
	Expression string     `json:"expression,omitempty"` // five fields, or six with seconds first
	Timezone   string     `json:"timezone,omitempty"`   // an IANA name
	EverySecs  int64      `json:"everySecs,omitempty"`
	Anchor     *time.Time `json:"anchor,omitempty"` // of an interval; nil: when the schedule was made
	At         *time.Time `json:"at,omitempty"`
}

// UnmarshalJSON also takes every_secs for everySecs.
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

// Cadence gives due times. It is safe for use by many goroutines.
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

// CodeNever is the code of a cadence that has no due time.
const CodeNever = "never_due"

// maxEvery is the longest interval in seconds.
const maxEvery = 100 * 366 * 86400

// New reads a spec. created is the anchor of an interval that has none; least is the
// shortest time between two due times that is accepted, 0 for any. A cron text that is
// never due is an error.
func New(s Spec, created time.Time, least time.Duration) (*Cadence, error) {
	c := &Cadence{spec: s}
	switch s.Type {
	case Cron:
		return c, c.readCron(created, least)
	case Interval:
		if s.EverySecs <= 0 || s.EverySecs > maxEvery {
			return nil, fault.InvalidField("everySecs", fault.CodeRange, "An interval needs everySecs, a number of seconds above 0.")
		}
		if every := duration.Of(s.EverySecs, time.Second); every < least {
			return nil, fault.InvalidField("everySecs", fault.CodeRange, "the shortest interval is %d s", int64(least/time.Second))
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
	return nil, fault.InvalidField("type", fault.CodeUnknownValue, "The type of a cadence must be cron, interval or once, not %q.", s.Type)
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
		return fault.InvalidField("expression", fault.CodeRange, "the shortest interval is %d s", int64(least/time.Second))
	}
	return nil
}

// closest is the least number of seconds between two due times.
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
	// The last of a day and the first of the next one.
	return min(least, int64(86400-at+first))
}

// Spec is what the cadence was made from.
func (c *Cadence) Spec() Spec { return c.spec }

// Next gives the first due time after t; ok is false when there is none.
func (c *Cadence) Next(t time.Time) (d Due, ok bool) {
	after := t.Unix() // due times are whole seconds, so the fraction does not matter
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

// Last gives the latest due time that is after from and not after until; ok is false when
// there is none. It costs a few dozen searches however many due times lie between.
func (c *Cadence) Last(from, until time.Time) (d Due, ok bool) {
	d, ok = c.Next(from)
	if !ok || d.At.After(until) {
		return Due{}, false
	}
	// A window before until that holds a due time, then halves of it.
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

// Local is the time zone's view of t: cron texts have one, other cadences show UTC.
func (c *Cadence) Local(t time.Time) time.Time {
	if c.loc != nil {
		return t.In(c.loc)
	}
	return t.UTC()
}

// place is the last part of a zone's name, for people.
func place(zone string) string {
	if i := strings.LastIndexByte(zone, '/'); i >= 0 {
		zone = zone[i+1:]
	}
	return strings.ReplaceAll(zone, "_", " ")
}
