package importer

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
)

// layouts lists the accepted time formats, those with a zone first.
var layouts = []string{
	time.RFC3339Nano,
	"2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02 15:04:05 -0700",
	"2006-01-02T15:04:05.999999999",
	"2006-01-02 15:04:05.999999999",
	"2006-01-02T15:04",
	"2006-01-02 15:04",
	"2006-01-02",
	"2006/01/02",
	"2 January 2006",
	"January 2, 2006",
}

// parseTime parses a time; a time without a zone is in zone. Numbers are seconds since 1970, or
// milliseconds if they are too large for seconds.
func parseTime(text string, zone *time.Location) (*time.Time, bool) {
	text = strings.TrimSpace(text)
	for _, layout := range layouts {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil {
			return inYearRange(t)
		}
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return epoch(n)
	}
	return nil, false
}

// epoch converts a number of seconds or milliseconds since 1970.
func epoch(n float64) (*time.Time, bool) {
	if math.IsNaN(n) || math.Abs(n) > 1e15 {
		return nil, false
	}
	if math.Abs(n) >= 1e11 { // the year 5138 in seconds
		n /= 1e3
	}
	sec, frac := math.Modf(n)
	return inYearRange(time.Unix(int64(sec), int64(math.Round(frac*1e6))*1e3))
}

// inYearRange rejects times that RFC 3339 cannot represent, because their year does not have four digits.
func inYearRange(t time.Time) (*time.Time, bool) {
	t = t.UTC().Truncate(time.Microsecond)
	if y := t.Year(); y < 1 || y > 9999 {
		return nil, false
	}
	return &t, true
}

// flexTime is a time in JSON: a string, a number or null.
type flexTime struct{ raw json.RawMessage }

func (f *flexTime) UnmarshalJSON(b []byte) error {
	f.raw = append(f.raw[:0], b...)
	return nil
}

// time returns the time. ok is false if the value is present but not a time.
func (f *flexTime) time(zone *time.Location) (_ *time.Time, ok bool) {
	if len(f.raw) == 0 || string(f.raw) == "null" {
		return nil, true
	}
	if f.raw[0] != '"' {
		n, err := strconv.ParseFloat(string(f.raw), 64)
		if err != nil {
			return nil, false
		}
		return epoch(n)
	}
	var text string
	if json.Unmarshal(f.raw, &text) != nil {
		return nil, false
	}
	if strings.TrimSpace(text) == "" {
		return nil, true
	}
	return parseTime(text, zone)
}

// span returns the first and the last time of turns.
func span(turns []Turn) (first, last *time.Time) {
	for i := range turns {
		at := turns[i].At
		if at == nil {
			continue
		}
		if first == nil || at.Before(*first) {
			first = at
		}
		if last == nil || at.After(*last) {
			last = at
		}
	}
	return first, last
}
