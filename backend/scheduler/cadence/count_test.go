package cadence

import (
	"testing"
	"time"
)

// TestCount compares the count with stepping, around each clock change.
func TestCount(t *testing.T) {
	t.Parallel()
	for _, zone := range zones {
		begins := changes(zone, year(zone))
		if len(begins) == 0 {
			begins = []time.Time{time.Date(2025, 3, 30, 0, 0, 0, 0, time.UTC)}
		}
		for _, text := range append([]string{"*/10 * * * * *", "15,45 */7 2,3 * * *"}, texts...) {
			c := mustNew(t, text, zone)
			for _, change := range begins {
				for _, w := range []struct{ from, until time.Duration }{
					{-36 * time.Hour, 36 * time.Hour}, {-30 * time.Minute, 0}, {-time.Second, 30 * time.Minute}, {0, 26 * time.Hour}, {-time.Hour, -time.Second}, {40 * time.Minute, 5 * 24 * time.Hour},
				} {
					from, until := change.Add(w.from), change.Add(w.until)
					var want int64
					for d, ok := c.Next(from); ok && !d.At.After(until); d, ok = c.Next(d.At) {
						want++
					}
					if got := c.Count(from, until); got != want {
						t.Errorf("%s in %s from %v to %v: %d, want %d", text, zone, from, until, got, want)
					}
				}
			}
		}
	}
	at := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	every, err := New(Spec{Type: Interval, EverySecs: 7, Anchor: &at}, at, 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := every.Count(at.Add(-7*time.Second), at.Add(14*time.Second)); n != 3 {
		t.Errorf("interval: %d", n)
	}
}
