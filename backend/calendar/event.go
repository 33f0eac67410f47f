package calendar

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/emersion/go-ical"
	"github.com/teambition/rrule-go"

	"helix/backend/fault"
)

// Event is one event, or one occurrence of a recurring one.
type Event struct {
	Event       string   `json:"event,omitempty"` // its path on the server
	ETag        string   `json:"etag,omitempty"`  // its version
	UID         string   `json:"uid"`
	Summary     string   `json:"summary"`
	Start       string   `json:"start"` // a date for an event of whole days, otherwise RFC 3339
	End         string   `json:"end"`   // exclusive
	AllDay      bool     `json:"allDay,omitempty"`
	TimeZone    string   `json:"timeZone,omitempty"`
	Location    string   `json:"location,omitempty"`
	Description string   `json:"description,omitempty"`
	Status      string   `json:"status,omitempty"`
	Organizer   string   `json:"organizer,omitempty"`
	Attendees   []string `json:"attendees,omitempty"`
	Recurring   bool     `json:"recurring,omitempty"`

	at time.Time
}

// Events is a list of events, by start.
type Events struct {
	Events   []Event  `json:"events"`
	More     bool     `json:"more,omitempty"` // there are more; ask for a shorter time
	Warnings []string `json:"-"`
}

// maxSteps is the maximum number of occurrences of a recurring event that are examined, from its start.
const maxSteps = 40_000

// maxText is the maximum length of a text of an event, in bytes.
const maxText = 4000

// expansion collects the events that overlap a range.
type expansion struct {
	ctx      context.Context
	zone     *time.Location // of times without one
	from, to time.Time
	out      []Event
	warnings []string
}

func (x *expansion) warn(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); len(x.warnings) < 20 && !slices.Contains(x.warnings, text) {
		x.warnings = append(x.warnings, text)
	}
}

func (x *expansion) done() (Events, error) {
	if err := x.ctx.Err(); err != nil {
		return Events{}, fault.As(err)
	}
	slices.SortStableFunc(x.out, func(a, b Event) int { return cmp.Or(a.at.Compare(b.at), strings.Compare(a.UID, b.UID)) })
	out := Events{Events: x.out, Warnings: x.warnings}
	if out.Events == nil {
		out.Events = []Event{}
	}
	if len(out.Events) > maxEvents {
		out.Events, out.More = out.Events[:maxEvents], true
	}
	return out, nil
}

// add adds the events of an iCalendar stream. It reports whether it is one.
func (x *expansion) add(href, etag string, r io.Reader) bool {
	d := ical.NewDecoder(r)
	found := false
	for {
		cal, err := d.Decode()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			x.warn("An event couldn't be read%s: %s.", in(href), err)
			return found
		}
		found = true
		series := map[string][]*ical.Component{} // by UID: an event and its changed occurrences
		order := []string{}
		for _, e := range cal.Events() {
			uid := value(e.Component, ical.PropUID)
			if series[uid] == nil {
				order = append(order, uid)
			}
			series[uid] = append(series[uid], e.Component)
		}
		for _, uid := range order {
			x.series(href, etag, series[uid])
		}
	}
}

func in(href string) string {
	if href == "" {
		return ""
	}
	return " at " + href
}

// series adds the occurrences of one event. A component with a RECURRENCE-ID replaces the occurrence at that time.
func (x *expansion) series(href, etag string, list []*ical.Component) {
	replaced := map[int64]bool{}
	recurring := len(list) > 1
	for _, c := range list {
		if p := c.Props.Get(ical.PropRecurrenceID); p != nil {
			if t, _, err := x.time(p); err == nil {
				replaced[t.Unix()] = true
			}
		}
		recurring = recurring || c.Props.Get(ical.PropRecurrenceRule) != nil || c.Props.Get(ical.PropRecurrenceDates) != nil
	}
	for _, c := range list {
		e, length, err := x.view(c)
		if err != nil {
			x.warn("The event %q couldn't be read: %s.", clip(value(c, ical.PropSummary), 80), err)
			continue
		}
		e.Event, e.ETag, e.Recurring = href, etag, recurring
		if c.Props.Get(ical.PropRecurrenceID) != nil {
			x.keep(e, e.at, length)
			continue
		}
		starts, err := x.starts(c, e.at, length)
		if err != nil {
			x.warn("The recurrence of %q couldn't be read, so only its first occurrence is listed: %s.", clip(e.Summary, 80), err)
			starts = []time.Time{e.at}
		}
		for _, at := range starts {
			if !replaced[at.Unix()] {
				x.keep(e, at, length)
			}
		}
	}
}

// keep adds an occurrence if it overlaps the range. One without a length is a moment.
func (x *expansion) keep(e Event, at time.Time, length time.Duration) {
	end := at.Add(length)
	if e.AllDay { // days have 23 to 25 hours
		end = at.AddDate(0, 0, int((length+12*time.Hour)/(24*time.Hour)))
	}
	if !at.Before(x.to) || !end.After(x.from) && !at.Equal(x.from) || len(x.out) > 2*maxEvents {
		return
	}
	e.at = at
	e.Start, e.End = at.Format(time.RFC3339), end.Format(time.RFC3339)
	if e.AllDay {
		e.Start, e.End = at.Format(time.DateOnly), end.Format(time.DateOnly)
	}
	x.out = append(x.out, e)
}

// starts returns when the occurrences of an event start, up to the end of the range.
func (x *expansion) starts(c *ical.Component, first time.Time, length time.Duration) ([]time.Time, error) {
	rule, err := c.Props.RecurrenceRule()
	if err != nil {
		return nil, err
	}
	set := &rrule.Set{}
	switch {
	case rule == nil && c.Props.Get(ical.PropRecurrenceDates) == nil:
		return []time.Time{first}, nil
	case rule == nil:
		set.RDate(first)
	case rule.Freq > rrule.DAILY:
		return nil, fmt.Errorf("it recurs more than once a day")
	default:
		rule.Dtstart = first
		r, err := rrule.NewRRule(*rule)
		if err != nil {
			return nil, err
		}
		set.RRule(r)
	}
	for name, add := range map[string]func(time.Time){ical.PropExceptionDates: set.ExDate, ical.PropRecurrenceDates: set.RDate} {
		for _, p := range c.Props.Values(name) {
			for one := range strings.SplitSeq(p.Value, ",") {
				single := p
				single.Value, _, _ = strings.Cut(one, "/") // a period starts with its time
				t, _, err := x.time(&single)
				if err != nil {
					return nil, err
				}
				add(t)
			}
		}
	}
	out := []time.Time{}
	next := set.Iterator()
	for range maxSteps {
		t, ok := next()
		if !ok || !t.Before(x.to) || x.ctx.Err() != nil {
			return out, nil
		}
		if t.Add(length+25*time.Hour).After(x.from) && len(out) <= 2*maxEvents {
			out = append(out, t)
		}
	}
	x.warn("An event recurs too often to list all of it.")
	return out, nil
}

// time returns a DATE or DATE-TIME, and whether it is a DATE. A zone that nobody knows is taken for the user's.
func (x *expansion) time(p *ical.Prop) (time.Time, bool, error) {
	day := len(p.Value) == len("20060102")
	if id := p.Params.Get(ical.PropTimezoneID); id != "" && !day {
		if _, err := time.LoadLocation(strings.TrimPrefix(id, "/")); err != nil {
			x.warn("The time zone %q isn't known, so its times are read as those of this computer.", clip(id, 80))
			t, err := time.ParseInLocation("20060102T150405", strings.TrimSuffix(p.Value, "Z"), x.zone)
			return t, false, err
		}
	}
	t, err := p.DateTime(x.zone)
	return t, day, err
}

// view returns an event with its length.
func (x *expansion) view(c *ical.Component) (e Event, length time.Duration, err error) {
	start := c.Props.Get(ical.PropDateTimeStart)
	if start == nil {
		return e, 0, fmt.Errorf("it has no start")
	}
	if e.at, e.AllDay, err = x.time(start); err != nil {
		return e, 0, err
	}
	switch end, d := c.Props.Get(ical.PropDateTimeEnd), c.Props.Get(ical.PropDuration); {
	case end != nil:
		t, _, err := x.time(end)
		if err != nil {
			return e, 0, err
		}
		length = max(0, t.Sub(e.at))
	case d != nil:
		if length, err = d.Duration(); err != nil {
			return e, 0, err
		}
	case e.AllDay:
		length = 24 * time.Hour
	}
	e.UID, e.Summary, e.Location, e.Description = value(c, ical.PropUID), value(c, ical.PropSummary), value(c, ical.PropLocation), value(c, ical.PropDescription)
	e.Status, e.TimeZone = strings.ToLower(value(c, ical.PropStatus)), start.Params.Get(ical.PropTimezoneID)
	e.Organizer = person(c.Props.Get(ical.PropOrganizer))
	for _, p := range c.Props.Values(ical.PropAttendee) {
		if len(e.Attendees) < 100 {
			e.Attendees = append(e.Attendees, person(&p))
		}
	}
	return e, length, nil
}

func value(c *ical.Component, name string) string {
	p := c.Props.Get(name)
	if p == nil {
		return ""
	}
	s, err := p.Text()
	if err != nil {
		s = p.Value
	}
	return clip(s, maxText)
}

// person returns the address of an organizer or attendee.
func person(p *ical.Prop) string {
	if p == nil {
		return ""
	}
	address := p.Value
	if len(address) > 7 && strings.EqualFold(address[:7], "mailto:") {
		address = address[7:]
	}
	if name := p.Params.Get(ical.ParamCommonName); name != "" && name != address {
		return clip(name, 200) + " <" + clip(address, 300) + ">"
	}
	return clip(address, 300)
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// Draft is what a person wants an event to be. An absent field stays as it is.
type Draft struct {
	Summary     *string `json:"summary"`
	Start       *string `json:"start"` // a date, or a time in RFC 3339, or a time without an offset in TimeZone
	End         *string `json:"end"`   // exclusive; default: an hour or a day after the start
	TimeZone    string  `json:"timeZone"`
	Location    *string `json:"location"`
	Description *string `json:"description"`
	Recurrence  *string `json:"recurrence"` // RRULE of RFC 5545; "": none
}

// create returns a new event as iCalendar.
func create(uid string, d *Draft, now time.Time) ([]byte, error) {
	cal := ical.NewCalendar()
	cal.Props.SetText(ical.PropVersion, "2.0")
	cal.Props.SetText(ical.PropProductID, "-//Helix//Helix//EN")
	e := ical.NewComponent(ical.CompEvent)
	e.Props.SetText(ical.PropUID, uid)
	cal.Children = append(cal.Children, e)
	if d.Start == nil || d.Summary == nil {
		return nil, fault.Invalidf("An event needs a summary and a start.")
	}
	if err := d.apply(e, time.UTC, now); err != nil {
		return nil, err
	}
	return encode(cal)
}

// change returns the iCalendar of an event with the changes.
func change(raw []byte, d *Draft, zone *time.Location, now time.Time) ([]byte, error) {
	cal, err := ical.NewDecoder(bytes.NewReader(raw)).Decode()
	if err != nil {
		return nil, fault.Unavailablef("The event on the server couldn't be read. Nothing was written.").WithCause(err)
	}
	for _, e := range cal.Events() {
		if e.Props.Get(ical.PropRecurrenceID) != nil {
			continue
		}
		if err := d.apply(e.Component, zone, now); err != nil {
			return nil, err
		}
		sequence, _ := strconv.Atoi(value(e.Component, ical.PropSequence))
		p := ical.NewProp(ical.PropSequence)
		p.Value = strconv.Itoa(sequence + 1)
		e.Props.Set(p)
		return encode(cal)
	}
	return nil, fault.Unavailablef("There is no event in the entry on the server. Nothing was written.")
}

func encode(cal *ical.Calendar) ([]byte, error) {
	var b bytes.Buffer
	if err := ical.NewEncoder(&b).Encode(cal); err != nil {
		return nil, fault.Invalidf("The event can't be written as iCalendar. Nothing was written.").WithCause(err)
	}
	if b.Len() > maxICS {
		return nil, fault.Limitf("The event is larger than 1 MiB. Nothing was written.")
	}
	return b.Bytes(), nil
}

// apply sets what the draft has.
func (d *Draft) apply(e *ical.Component, zone *time.Location, now time.Time) error {
	for name, v := range map[string]*string{ical.PropSummary: d.Summary, ical.PropLocation: d.Location, ical.PropDescription: d.Description} {
		switch {
		case v != nil && *v == "":
			e.Props.Del(name)
		case v != nil:
			e.Props.SetText(name, *v)
		}
	}
	recurs := e.Props.Get(ical.PropRecurrenceRule) != nil
	if d.Recurrence != nil {
		e.Props.Del(ical.PropRecurrenceRule)
		if recurs = *d.Recurrence != ""; recurs {
			rule, err := rrule.StrToROption(strings.TrimPrefix(*d.Recurrence, "RRULE:"))
			if err != nil {
				return fault.InvalidField("body/recurrence", fault.CodeSyntax, "The recurrence isn't valid: %s. An example: FREQ=WEEKLY;BYDAY=MO;COUNT=10.", err)
			}
			e.Props.SetRecurrenceRule(rule)
		}
	}
	if err := d.applyTimes(e, zone, recurs); err != nil {
		return err
	}
	e.Props.SetDateTime(ical.PropDateTimeStamp, now.UTC())
	e.Props.SetDateTime(ical.PropLastModified, now.UTC())
	return nil
}

// applyTimes sets the start and the end. An event that moves keeps its length.
func (d *Draft) applyTimes(e *ical.Component, zone *time.Location, recurs bool) error {
	if d.Start == nil && d.End == nil {
		return nil
	}
	x := expansion{zone: zone}
	var was Event
	length := time.Duration(-1)
	if e.Props.Get(ical.PropDateTimeStart) != nil {
		var err error
		if was, length, err = x.view(e); err != nil {
			return fault.Invalidf("The times of the event couldn't be read: %s.", err)
		}
	}
	start, day := was.at, was.AllDay
	var err error
	if d.Start != nil {
		if start, day, err = d.parse("start", *d.Start); err != nil {
			return err
		}
	}
	var end time.Time
	switch {
	case d.End != nil:
		var endDay bool
		if end, endDay, err = d.parse("end", *d.End); err != nil {
			return err
		}
		if endDay != day {
			return fault.InvalidField("body/end", fault.CodeType, "The start and the end must both be dates or both be times.")
		}
	case length >= 0 && day == was.AllDay:
		end = start.Add(length)
	case day:
		end = start.AddDate(0, 0, 1)
	default:
		end = start.Add(time.Hour)
	}
	if !end.After(start) && (d.End != nil || length != 0) {
		return fault.InvalidField("body/end", fault.CodeRange, "The end must be after the start.")
	}
	if recurs && !day && start.Location() != time.UTC && d.TimeZone == "" && d.Start != nil {
		return fault.InvalidField("body/timeZone", fault.CodeMissing, "A recurring event needs a time zone such as Europe/Berlin, because its offset from UTC can change.")
	}
	e.Props.Del(ical.PropDuration)
	for name, t := range map[string]time.Time{ical.PropDateTimeStart: start, ical.PropDateTimeEnd: end} {
		switch {
		case day:
			e.Props.SetDate(name, t)
		case recurs:
			e.Props.SetDateTime(name, t) // in its zone: the hour stays when the offset changes
		default:
			e.Props.SetDateTime(name, t.UTC())
		}
	}
	return nil
}

// parse reads a date or a time of a draft.
func (d *Draft) parse(field, s string) (t time.Time, day bool, err error) {
	if t, err = time.Parse(time.DateOnly, s); err == nil {
		return t, true, nil
	}
	zone := time.UTC
	if d.TimeZone != "" {
		if zone, err = time.LoadLocation(d.TimeZone); err != nil || d.TimeZone == "Local" {
			return t, false, fault.InvalidField("body/timeZone", fault.CodeUnknownValue, "%.80q isn't a time zone such as Europe/Berlin.", d.TimeZone)
		}
	}
	if t, err = time.Parse(time.RFC3339, s); err == nil {
		if d.TimeZone != "" {
			t = t.In(zone)
		}
		return t, false, nil
	}
	if d.TimeZone != "" {
		if t, err = time.ParseInLocation("2006-01-02T15:04:05", s, zone); err == nil {
			return t, false, nil
		}
	}
	return t, false, fault.InvalidField("body/"+field, fault.CodeSyntax, "%.80q isn't a date such as 2026-12-01 or a time such as 2026-12-01T10:00:00+01:00. A time without an offset needs timeZone.", s)
}
