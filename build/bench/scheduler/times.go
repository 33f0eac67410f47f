package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/adhocore/gronx"
	"github.com/robfig/cron/v3"

	"helix/backend/scheduler"
	"helix/backend/scheduler/cadence"
	"helixbench/figures"
)

// nextTimes measures the next due time of cron texts, with our rules for clock changes.
func nextTimes() {
	texts := []string{"30 2 * * *", "0 9 * * 1-5", "*/15 * * * *", "0 0 1 * *", "0 9 * * 1"}
	berlin, err := time.LoadLocation("Europe/Berlin")
	figures.Check(err)
	from := time.Date(2026, 1, 1, 12, 0, 0, 0, berlin)
	const n = 2000
	per := func(next func(i int, t time.Time) time.Time) float64 {
		var all []float64
		for range 15 {
			begun := time.Now()
			for i := range texts {
				t := from
				for range n / len(texts) {
					t = next(i, t)
				}
			}
			all = append(all, float64(time.Since(begun).Nanoseconds())/1e3/n)
		}
		return figures.Quantile(all, 0.5)
	}
	ours := make([]*cadence.Cadence, len(texts))
	theirs := make([]cron.Schedule, len(texts))
	seven := make([]string, len(texts))
	for i, text := range texts {
		ours[i], err = cadence.New(cadence.Spec{Type: cadence.Cron, Expression: text, Timezone: "Europe/Berlin"}, from, 0)
		figures.Check(err)
		theirs[i], err = cron.ParseStandard(text)
		figures.Check(err)
		seven[i] = "0 " + text + " *"
	}
	mine := per(func(i int, t time.Time) time.Time {
		d, ok := ours[i].Next(t)
		if !ok {
			figures.Check(fmt.Errorf("no next time"))
		}
		return d.At.In(berlin)
	})
	bare := per(func(i int, t time.Time) time.Time {
		next, err := gronx.NextTickAfter(seven[i], t, false)
		figures.Check(err)
		return next
	})
	robfig := per(func(i int, t time.Time) time.Time { return theirs[i].Next(t) })
	figures.Print("next_time", mine, "us", mine/bare, "gronx, without rules for clock changes")
	figures.Print("next_time", mine, "us", mine/robfig, "robfig/cron")
}

// previews measures the preview of 100 times and a calendar of 62 days with 50 schedules.
func previews() {
	dir := folder()
	defer os.RemoveAll(dir)
	b := open(dir, &clock{start: time.Now(), wall: time.Now(), scale: 1}, nil)
	defer b.close()
	var all []float64
	for range 30 {
		begun := time.Now()
		_, err := b.svc.Preview(b.ctx, scheduler.PreviewParams{Cadence: json.RawMessage(`{"type":"cron","expression":"30 2 * * 1-5","timezone":"Europe/Berlin"}`), Count: 100})
		figures.Check(err)
		all = append(all, ms(time.Since(begun)))
	}
	figures.Print("preview_100", figures.Quantile(all, 0.5), "ms", 0, "")
	for i := range 50 {
		b.create(fmt.Sprintf("p%d", i), fmt.Sprintf(`{"type":"cron","expression":"%d %d * * *","timezone":"Europe/Berlin"}`, i, i%24))
	}
	all = nil
	now := time.Now()
	for range 10 {
		begun := time.Now()
		_, err := b.svc.Calendar(b.ctx, scheduler.CalendarParams{From: now, To: now.AddDate(0, 0, 62)})
		figures.Check(err)
		all = append(all, ms(time.Since(begun)))
	}
	figures.Print("calendar, 62 days, 50 schedules", figures.Quantile(all, 0.5), "ms", 0, "")
}
