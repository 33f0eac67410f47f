package notices

import (
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"
)

// shown returns a Center and the texts of what it showed.
func shown(p *Preferences) (*Center, *[]string) {
	out := &[]string{}
	return New(func(n Notice) { *out = append(*out, n.Title+" | "+n.Body+" | "+n.Link) }, func() Preferences { return *p }), out
}

func expect(t *testing.T, got *[]string, want ...string) {
	t.Helper()
	synctest.Wait()
	if !reflect.DeepEqual(append([]string{}, *got...), append([]string{}, want...)) {
		t.Errorf("shown %q, want %q", *got, want)
	}
	*got = nil
}

func run(i int) Notice {
	return Notice{Kind: Run, Title: "Skill finished", Body: fmt.Sprint("Report ", i), Detail: "the output", Link: fmt.Sprint("helix://runs/", i)}
}

func TestNoticesOfAKindAreCombined(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, got := shown(&Preferences{Enabled: true})
		defer c.Close()
		for i := range 4 {
			c.Add(run(i))
		}
		c.Add(Notice{Kind: Approval, Title: "Approval waiting", Body: "Send mail", Link: "helix://approvals/1"})
		expect(t, got, "Skill finished | Report 0 | helix://runs/0", "Approval waiting | Send mail | helix://approvals/1")
		time.Sleep(gap)
		expect(t, got, "3 skills finished | Report 1, Report 2, Report 3 | helix://runs/3")
		c.Add(run(4)) // the summary began a gap
		expect(t, got)
		time.Sleep(gap)
		expect(t, got, "Skill finished | Report 4 | helix://runs/4")
		time.Sleep(time.Hour)
		c.Add(run(5))
		expect(t, got, "Skill finished | Report 5 | helix://runs/5")
	})
}

func TestContentIsShownOnlyWithPreviews(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &Preferences{Enabled: true, Preview: true}
		c, got := shown(p)
		defer c.Close()
		c.Add(run(1))
		expect(t, got, "Skill finished | Report 1 the output | helix://runs/1")
		time.Sleep(gap)
		p.Preview = false
		c.Add(run(2))
		expect(t, got, "Skill finished | Report 2 | helix://runs/2")
	})
}

func TestQuietHoursEndWithOneSummary(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now() // midnight UTC in a bubble
		p := &Preferences{Enabled: true}
		from := begin.Local()
		p.Quiet = fmt.Sprintf("%02d:%02d-%02d:%02d", from.Hour(), from.Minute(), (from.Hour()+7)%24, from.Minute())
		c, got := shown(p)
		defer c.Close()
		c.Add(run(1))
		c.Add(run(2))
		c.Add(Notice{Kind: Memo, Title: "Memo transcribed", Link: "helix://voice"})
		c.Add(Notice{Kind: Test, Title: "Test"})
		time.Sleep(7*time.Hour - time.Minute)
		expect(t, got, "Test |  | ")
		time.Sleep(time.Minute)
		expect(t, got, "During quiet hours | 2 skills finished, 1 memo transcribed | ")
		time.Sleep(17 * time.Hour)
		c.Add(run(3))
		time.Sleep(7 * time.Hour)
		expect(t, got, "Skill finished | Report 3 | helix://runs/3")
	})
}

func TestNoticesThatAreOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &Preferences{}
		c, got := shown(p)
		c.Add(run(1))
		c.Add(Notice{Kind: Test, Title: "Test"})
		expect(t, got, "Test |  | ")
		p.Enabled = true
		c.Add(run(2))
		c.Add(run(3))
		c.Close()
		time.Sleep(time.Hour)
		expect(t, got, "Skill finished | Report 2 | helix://runs/2")
	})
}

func TestQuietFor(t *testing.T) {
	t.Parallel()
	at := func(h, m int) time.Time { return time.Date(2026, 3, 1, h, m, 0, 0, time.UTC) }
	for _, c := range []struct {
		hours string
		now   time.Time
		want  time.Duration
	}{
		{"", at(3, 0), 0},
		{"nonsense", at(3, 0), 0},
		{"22:00-07:00", at(21, 59), 0},
		{"22:00-07:00", at(22, 0), 9 * time.Hour},
		{"22:00-07:00", at(6, 59), time.Minute},
		{"22:00-07:00", at(7, 0), 0},
		{"12:30-13:00", at(12, 45), 15 * time.Minute},
		{"12:30-13:00", at(13, 0), 0},
	} {
		if got := quietFor(c.hours, c.now); got != c.want {
			t.Errorf("%s at %s: %s, want %s", c.hours, c.now.Format("15:04"), got, c.want)
		}
	}
}
