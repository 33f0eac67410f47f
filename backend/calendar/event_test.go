package calendar

import (
	"strings"
	"testing"
	"time"
)

func FuzzEventsOfAnyFile(f *testing.F) {
	for _, s := range []string{
		"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:a\r\nDTSTART:20261130T120000Z\r\nDURATION:PT30M\r\nRRULE:FREQ=DAILY;INTERVAL=2\r\nEXDATE:20261202T120000Z\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n",
		"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:a\r\nDTSTART;VALUE=DATE:20261130\r\nRDATE;VALUE=DATE:20261201,20261204\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n",
		"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;TZID=Europe/Berlin:20261130T120000\r\nRECURRENCE-ID:20261130T120000\r\nATTENDEE;CN=Ada:mailto:a@b\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n",
	} {
		f.Add(s)
	}
	from := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	summary, start := "x", "2026-12-01T10:00:00Z"
	f.Fuzz(func(t *testing.T, text string) {
		x := expansion{ctx: t.Context(), zone: time.UTC, from: from, to: from.AddDate(0, 1, 0)}
		x.add("/a", "1", strings.NewReader(text))
		out, err := x.done()
		if err != nil || len(out.Events) > maxEvents {
			t.Fatalf("%v, %d events", err, len(out.Events))
		}
		for _, e := range out.Events {
			if !e.at.Before(x.to) {
				t.Errorf("%+v isn't in the range", e)
			}
		}
		if raw, err := change([]byte(text), &Draft{Summary: &summary, Start: &start}, time.UTC, from); err == nil && !strings.Contains(string(raw), "SUMMARY:x") {
			t.Errorf("the change is lost: %s", raw)
		}
	})
}

func TestRecurrenceThatNeverEndsIsBounded(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	x := expansion{ctx: t.Context(), zone: time.UTC, from: from, to: from.AddDate(3, 0, 0)}
	x.add("", "", strings.NewReader("BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:a\r\nDTSTART:17000101T000000Z\r\nRRULE:FREQ=DAILY\r\nEND:VEVENT\r\nBEGIN:VEVENT\r\nUID:b\r\nDTSTART:20250101T000000Z\r\nRRULE:FREQ=DAILY\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"))
	out, err := x.done()
	if err != nil || len(out.Events) != maxEvents || !out.More || len(out.Warnings) != 1 || !strings.Contains(out.Warnings[0], "too often") {
		t.Errorf("%v, %d events, %v, %q", err, len(out.Events), out.More, out.Warnings)
	}
}
