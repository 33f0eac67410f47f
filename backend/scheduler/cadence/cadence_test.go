package cadence

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/adhocore/gronx"
)

var update = flag.Bool("update", false, "write the golden files")

var zones = []string{
	"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo",
	"Africa/Casablanca", "Asia/Kolkata", "UTC",
}

var texts = []string{
	"30 2 * * *", "30 1 * * *", "0 * * * *", "*/15 * * * *", "0 0 * * *", "0 0 L * *", "0 9 * * 1",
	"0 9 * * 0", "0 9 * * 7", "0 9 13 * 5", "0 9 */2 * 1", "*/20 1-3 * * *", "0 0 1 1 *",
}

// years with clock changes worth testing, by zone.
var years = map[string]int{"Pacific/Apia": 2011, "America/Sao_Paulo": 2018, "Africa/Casablanca": 2025}

func year(zone string) int {
	if y := years[zone]; y != 0 {
		return y
	}
	return 2025
}

func mustNew(t testing.TB, text, zone string) *Cadence {
	t.Helper()
	c, err := New(Spec{Type: Cron, Expression: text, Timezone: zone}, time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), 0)
	if err != nil {
		t.Fatalf("%s in %s: %v", text, zone, err)
	}
	return c
}

// changes returns the clock changes of a zone in a year.
func changes(zone string, y int) (out []time.Time) {
	loc, _ := time.LoadLocation(zone)
	at := time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC)
	for {
		_, until := at.In(loc).ZoneBounds()
		if until.IsZero() || until.Year() > y {
			return out
		}
		out, at = append(out, until), until
	}
}

// TestTimes compares due times around each clock change with a reviewed table.
func TestTimes(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, zone := range zones {
		for _, text := range texts {
			c := mustNew(t, text, zone)
			fmt.Fprintf(&b, "%s  %s  %s\n", zone, text, c.Words())
			begins := changes(zone, year(zone))
			if len(begins) == 0 {
				begins = []time.Time{time.Date(2025, 3, 30, 0, 0, 0, 0, time.UTC)}
			}
			for _, change := range begins {
				at := change.Add(-90 * time.Minute)
				for range 4 {
					d, ok := c.Next(at)
					if !ok {
						t.Fatalf("%s in %s ends", text, zone)
					}
					fmt.Fprintf(&b, "    %s %s\n", c.Local(d.At).Format("Mon 2006-01-02 15:04:05 -07:00"), d.Note)
					at = d.At
				}
				b.WriteString("    -\n")
			}
		}
	}
	path := filepath.Join("testdata", "times.golden")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != b.String() {
		t.Errorf("due times differ from %s; run go test -update and review the difference", path)
	}
}

// TestBruteForce steps through each minute around the clock changes and applies the documented rules.
func TestBruteForce(t *testing.T) {
	t.Parallel()
	for _, zone := range zones {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			begins := changes(zone, year(zone))
			if len(begins) == 0 {
				begins = []time.Time{time.Date(2025, 3, 30, 0, 0, 0, 0, time.UTC)}
			}
			for _, text := range texts {
				for _, change := range begins {
					bruteForce(t, text, zone, change.Add(-8*24*time.Hour), change.Add(8*24*time.Hour))
				}
			}
		})
	}
}

func bruteForce(t *testing.T, text, zone string, from, until time.Time) {
	t.Helper()
	c := mustNew(t, text, zone)
	loc := c.loc
	running := strings.Fields(text)[1] == "*"
	wall := func(at time.Time) int64 { _, off := at.In(loc).Zone(); return at.Unix() + int64(off) }
	names := func(w int64) bool { n, ok := c.cron.next(w - 1); return ok && n == w }
	latest := wall(from.Add(-48 * time.Hour)) // the latest civil time so far
	for at := from.Add(-48 * time.Hour); at.Before(from); at = at.Add(time.Minute) {
		latest = max(latest, wall(at))
	}
	at := from.Add(-time.Second)
	for m := from; m.Before(until); m = m.Add(time.Minute) {
		w := wall(m)
		due := running && names(w)
		if !running && w > latest {
			for v := latest + 60; v <= w && !due; v += 60 { // more than one step: a gap
				due = names(v)
			}
		}
		latest = max(latest, w)
		if !due {
			continue
		}
		d, ok := c.Next(at)
		if !ok || !d.At.Equal(m) {
			t.Fatalf("%s in %s: after %v due is %v, want %v", text, zone, at.In(loc), d.At.In(loc), m.In(loc))
		}
		at = d.At
	}
	if d, ok := c.Next(at); ok && d.At.Before(until) {
		t.Fatalf("%s in %s: after %v due is %v, want nothing before %v", text, zone, at.In(loc), d.At.In(loc), until.In(loc))
	}
}

// TestDailyTimeComesOnceOnEachDate checks that a fixed daily time is due once on each local date,
// even on those of clock changes, unless the date itself is skipped.
func TestDailyTimeComesOnceOnEachDate(t *testing.T) {
	t.Parallel()
	for _, zone := range zones {
		c := mustNew(t, "30 2 * * *", zone)
		at := time.Date(year(zone), 1, 1, 0, 0, 0, 0, time.UTC)
		seen := map[string]bool{}
		for range 364 {
			d, ok := c.Next(at)
			if !ok || !d.At.After(at) {
				t.Fatalf("%s: after %v due is %v", zone, at, d.At)
			}
			date := c.Local(d.At).Format(time.DateOnly)
			if seen[date] && !(zone == "Pacific/Apia" && date == "2011-12-31") {
				t.Errorf("%s: twice on %s", zone, date)
			}
			seen[date], at = true, d.At
		}
	}
}

// TestAgainstLibrary compares civil times with a cron library that does not handle clock changes.
func TestAgainstLibrary(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	for range 3000 {
		text := strings.Join([]string{
			pick("0", "*/7", "5,35", "10-20", "59", "10-50/20", "3/25", "*"),
			pick("0", "*", "9", "*/5", "22-23", "1,13", "0-23/6"),
			pick("*", "*", "1", "13", "31", "L", "15W", "1W", "31W", "*/2", "10-12", "28,29"),
			pick("*", "*", "2", "JAN,JUN", "*/3", "4-6", "11"),
			pick("*", "*", "1", "0", "7", "MON-FRI", "5L", "5#3", "7#1", "5-7", "1,3", "2#5"),
		}, " ")
		c, err := parseCron(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		at := time.Date(2023+r.IntN(4), time.Month(1+r.IntN(12)), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60), 0, time.UTC)
		want, err := gronx.NextTickAfter("0 "+text+" *", at, false)
		if err != nil {
			continue // the library gives up early
		}
		got, ok := c.next(at.Unix())
		if !ok || got != want.Unix() {
			if due, _ := gronx.New().IsDue("0 "+text+" *", time.Unix(got, 0).UTC()); due && got < want.Unix() {
				continue // the library skipped a time that it considers due
			}
			t.Errorf("%s after %v: %v, want %v", text, at, time.Unix(got, 0).UTC(), want)
		}
	}
}

func TestLast(t *testing.T) {
	t.Parallel()
	from := time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC)
	for _, text := range append([]string{"* * * * *", "*/10 * * * * *"}, texts...) {
		for _, zone := range zones {
			c := mustNew(t, text, zone)
			for _, span := range []time.Duration{time.Minute, 50 * time.Hour, 40 * 24 * time.Hour} {
				if text == "*/10 * * * * *" && span > 50*time.Hour {
					continue
				}
				until := from.Add(span)
				var want time.Time
				for d, ok := c.Next(from); ok && !d.At.After(until); d, ok = c.Next(d.At) {
					want = d.At
				}
				got, ok := c.Last(from, until)
				if ok == want.IsZero() || ok && !got.At.Equal(want) {
					t.Errorf("%s in %s over %v: %v, want %v", text, zone, span, got.At, want)
				}
			}
		}
	}
}

func TestRareDates(t *testing.T) {
	t.Parallel()
	c := mustNew(t, "0 0 29 2 *", "UTC")
	d, ok := c.Next(time.Date(2096, 3, 1, 0, 0, 0, 0, time.UTC))
	if want := time.Date(2104, 2, 29, 0, 0, 0, 0, time.UTC); !ok || !d.At.Equal(want) {
		t.Errorf("29 February after 2096 is %v", d.At)
	}
	c = mustNew(t, "0 0 29 2 0", "UTC") // either: any Sunday of February too
	if d, ok := c.Next(time.Date(2025, 2, 1, 0, 0, 0, 0, time.UTC)); !ok || d.At.Day() != 2 {
		t.Errorf("%v", d.At)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	at := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"60 * * * *":      "field 1 (minute): 60 is outside 0–59",
		"0 24 * * *":      "field 2 (hour): 24 is outside 0–23",
		"0 9 * * 8":       "field 5 (weekday): 8 is outside 0–7",
		"0 0 0 9 * 8":     "field 4 (day): 9",
		"9 * * *":         "this one has 4",
		"0 0 1 1 * * *":   "this one has 7",
		"":                "this one has 0",
		"0 0 30 2 *":      "this date never occurs",
		"0 0 31 4,6 *":    "this date never occurs",
		"0 0 LW * *":      "LW is not supported",
		"0 0 * * 5-1":     "is reversed",
		"0 0 * FOO *":     `"FOO" is not a value`,
		"*/0 * * * *":     "not a step",
		"1,,2 * * * *":    "a value is missing",
		"0 0 * * 5#6":     "outside 1–5",
		"-1 * * * *":      "is not a value",
		"0 0 5L * *":      "is not a value",
		"@never":          "is not supported",
		"* * * * * *":     "shortest interval is 60 s",
		"0,30 * * * * *":  "shortest interval is 60 s",
		"59 59 23 * * * ": "",
		"0 * * * * *":     "",
		"@daily":          "",
	} {
		if text == "0 0 0 9 * 8" {
			want = "field 6 (weekday): 8 is outside 0–7"
		}
		_, err := New(Spec{Type: Cron, Expression: text, Timezone: "UTC"}, at, time.Minute)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for zone, want := range map[string]string{
		"Mars/Base": "unknown time zone", "IST": "did you mean Asia/Kolkata?", "Local": "unknown", "": "unknown", "../etc/passwd": "unknown", "CET": "did you mean",
	} {
		if _, err := Zone(zone); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("zone %q: %v", zone, err)
		}
	}
	for _, s := range []Spec{{}, {Type: "x"}, {Type: Once}, {Type: Interval}, {Type: Interval, EverySecs: 5}, {Type: Interval, EverySecs: -1}} {
		if _, err := New(s, at, time.Minute); err == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
}

func TestIntervalAndOnce(t *testing.T) {
	t.Parallel()
	created := time.Date(2025, 1, 1, 0, 0, 7, 0, time.UTC)
	var s Spec
	if err := json.Unmarshal([]byte(`{"type":"interval","every_secs":90}`), &s); err != nil {
		t.Fatal(err)
	}
	c, err := New(s, created, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	at := created
	for i := 1; i <= 10000; i++ {
		d, ok := c.Next(at)
		if want := created.Add(time.Duration(i) * 90 * time.Second); !ok || !d.At.Equal(want) {
			t.Fatalf("due time %d is %v, want %v", i, d.At, want)
		}
		at = d.At.Add(time.Duration(i%89) * time.Second) // runs take time
	}
	if d, ok := c.Next(created.Add(-time.Hour)); !ok || !d.At.Before(created) {
		t.Errorf("before the anchor: %v", d.At)
	}
	once, err := New(Spec{Type: Once, At: &at}, created, 0)
	if err != nil {
		t.Fatal(err)
	}
	if d, ok := once.Next(created); !ok || !d.At.Equal(at.Truncate(time.Second)) {
		t.Errorf("once: %v", d.At)
	}
	if _, ok := once.Next(at); ok {
		t.Error("once is due twice")
	}
}

func FuzzCron(f *testing.F) {
	for _, text := range texts {
		f.Add(text, int64(1_700_000_000))
	}
	f.Add("* * * * * *", int64(-1))
	f.Add("0 0 29 2 1#5", int64(4_000_000_000))
	loc, err := Zone("Europe/Berlin")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string, at int64) {
		c, err := parseCron(text)
		if err != nil || at < -1<<40 || at > 1<<40 {
			return
		}
		for range 3 {
			next, _, ok := c.nextInstant(at, loc)
			if !ok {
				break
			}
			if next <= at {
				t.Fatalf("%q: due at %d after %d", text, next, at)
			}
			at = next
		}
	})
}

func BenchmarkNext(b *testing.B) {
	at := time.Date(2025, 3, 29, 12, 0, 0, 0, time.UTC)
	for _, text := range []string{"0 9 * * 1-5", "*/15 * * * *", "0 0 1 1 *"} {
		c := mustNew(b, text, "Europe/Berlin")
		b.Run(text, func(b *testing.B) {
			for b.Loop() {
				c.Next(at)
			}
		})
		b.Run("gronx "+text, func(b *testing.B) {
			for b.Loop() {
				_, _ = gronx.NextTickAfter("0 "+text+" *", at, false)
			}
		})
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0 9 * * 1-5":      "weekdays at 09:00, Berlin",
		"0 * * * *":        "every hour, Berlin",
		"30 * * * *":       "every hour at minute 30, Berlin",
		"*/15 * * * *":     "every 15 minutes, Berlin",
		"* * * * *":        "every minute, Berlin",
		"0 0 * * * *":      "every hour, Berlin",
		"*/10 * * * * *":   "every 10 seconds of every minute, Berlin",
		"0 0 * * 0":        "Sundays at 00:00, Berlin",
		"0 8,20 * * *":     "every day at 08:00 and 20:00, Berlin",
		"0 0 1 * *":        "on day 1 of the month at 00:00, Berlin",
		"0 9 13 * 5":       "Fridays and on day 13 of the month at 09:00, Berlin",
		"0 9 */2 * 1":      "Mondays that fall on every 2 days from the 1st of the month at 09:00, Berlin",
		"0 9 * 6 1#2":      "the second Monday of the month in June at 09:00, Berlin",
		"*/20 9-17 * * 6L": "every 20 minutes of hours 9 to 17, the last Saturday of the month, Berlin",
		"15 10 L,15W * *":  "on the working day nearest to day 15 and the last day of the month at 10:15, Berlin",
	} {
		if got := mustNew(t, text, "Europe/Berlin").Words(); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	for secs, want := range map[int64]string{3600: "every hour", 90: "every 90 seconds", 7200: "every 2 hours", 86400: "every day", 604800: "every week"} {
		c, err := New(Spec{Type: Interval, EverySecs: secs}, time.Time{}, 0)
		if err != nil || c.Words() != want {
			t.Errorf("%d: %q, want %q; %v", secs, c.Words(), want, err)
		}
	}
}
