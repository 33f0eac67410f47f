// Package notices decides which system notifications are shown, and when: it combines those that
// come in quick succession and holds them back in quiet hours. Only app imports it.
package notices

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Kind groups notices that are combined.
type Kind string

// The kinds.
const (
	Run      Kind = "run"
	Reply    Kind = "reply"
	Approval Kind = "approval"
	Schedule Kind = "schedule"
	Conflict Kind = "conflict"
	Memo     Kind = "memo"
	Space    Kind = "space"
	Hidden   Kind = "hidden" // Helix keeps running in the tray
	Test     Kind = "test"
)

// Notice is one notification.
type Notice struct {
	Kind  Kind
	Title string
	Body  string // names things
	// Detail is content, which is shown only if the person wants previews.
	Detail string
	Link   string // where a click leads
}

// Preferences are the person's settings.
type Preferences struct {
	Enabled bool
	Preview bool
	Quiet   string // such as 22:00-07:00; "": none
}

// gap is how long after a notice others of its kind are collected.
const gap = 10 * time.Second

// Center passes notices on. It is safe for concurrent use.
type Center struct {
	send  func(Notice)
	prefs func() Preferences

	mu     sync.Mutex
	gaps   map[Kind]*time.Timer
	later  map[Kind][]Notice // collected in a gap
	quiet  []Notice          // collected in quiet hours
	dawn   *time.Timer       // ends them
	closed bool
}

// New returns a Center that shows notices with send, which may be called from any goroutine and
// must not call the Center.
func New(send func(Notice), prefs func() Preferences) *Center {
	return &Center{send: send, prefs: prefs, gaps: map[Kind]*time.Timer{}, later: map[Kind][]Notice{}}
}

// Add shows n now, or later together with others.
func (c *Center) Add(n Notice) {
	p := c.prefs()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch wait := quietFor(p.Quiet, time.Now()); {
	case c.closed || !p.Enabled && n.Kind != Test:
	case n.Kind == Test:
		c.show(n, p)
	case wait > 0:
		c.quiet = append(c.quiet, n)
		if c.dawn == nil {
			c.dawn = time.AfterFunc(wait, c.endQuiet)
		}
	case c.gaps[n.Kind] != nil:
		c.later[n.Kind] = append(c.later[n.Kind], n)
	default:
		c.show(n, p)
		c.open(n.Kind)
	}
}

// open begins the gap of a kind.
func (c *Center) open(k Kind) {
	c.gaps[k] = time.AfterFunc(gap, func() { c.endGap(k) })
}

func (c *Center) show(n Notice, p Preferences) {
	if p.Preview && n.Detail != "" {
		n.Body = strings.Join(strings.Fields(n.Body+"\n"+n.Detail), " ")
	}
	c.send(n)
}

// endGap shows what was collected in a gap. A notice begins the next gap.
func (c *Center) endGap(k Kind) {
	p := c.prefs()
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.later[k]
	delete(c.later, k)
	delete(c.gaps, k)
	switch {
	case c.closed || len(all) == 0:
		return
	case len(all) == 1:
		c.show(all[0], p)
	default:
		c.show(together(all), p)
	}
	c.open(k)
}

// endQuiet shows one summary of the quiet hours, unless they were extended meanwhile.
func (c *Center) endQuiet() {
	p := c.prefs()
	c.mu.Lock()
	defer c.mu.Unlock()
	if wait := quietFor(p.Quiet, time.Now()); wait > 0 {
		c.dawn = time.AfterFunc(wait, c.endQuiet)
		return
	}
	all := c.quiet
	c.quiet, c.dawn = nil, nil
	switch {
	case c.closed || !p.Enabled:
	case len(all) == 1:
		c.show(all[0], p)
	default:
		c.show(summary(all), p)
	}
}

// Close drops what is waiting.
func (c *Center) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, t := range c.gaps {
		t.Stop()
	}
	if c.dawn != nil {
		c.dawn.Stop()
	}
}

// counts are the words for several notices of a kind.
var counts = map[Kind][2]string{
	Run: {"skill finished", "skills finished"}, Reply: {"chat answered", "chats answered"}, Approval: {"approval is waiting", "approvals are waiting"},
	Schedule: {"scheduled run needs attention", "scheduled runs need attention"}, Conflict: {"sync conflict", "sync conflicts"},
	Memo: {"memo transcribed", "memos transcribed"}, Space: {"disk space warning", "disk space warnings"},
}

func counted(k Kind, n int) string {
	words := counts[k]
	if n == 1 {
		return "1 " + words[0]
	}
	return fmt.Sprintf("%d %s", n, words[1])
}

// together combines notices of one kind: "3 skills finished". A click leads to the newest.
func together(all []Notice) Notice {
	last := all[len(all)-1]
	names := []string{}
	for _, n := range all {
		if n.Body != "" && !slices.Contains(names, n.Body) && len(names) < 4 {
			names = append(names, n.Body)
		}
	}
	return Notice{Kind: last.Kind, Title: counted(last.Kind, len(all)), Body: strings.Join(names, ", "), Link: last.Link}
}

// summary says what happened in quiet hours, in the order in which the kinds first came.
func summary(all []Notice) Notice {
	var kinds []Kind
	number := map[Kind]int{}
	for _, n := range all {
		if number[n.Kind]++; number[n.Kind] == 1 {
			kinds = append(kinds, n.Kind)
		}
	}
	parts := make([]string, len(kinds))
	for i, k := range kinds {
		parts[i] = counted(k, number[k])
	}
	out := Notice{Kind: all[0].Kind, Title: "During quiet hours", Body: strings.Join(parts, ", ")}
	if len(kinds) == 1 {
		out.Link = all[len(all)-1].Link
	}
	return out
}

// quietFor returns how long the quiet hours around now last; 0 outside of them.
func quietFor(hours string, now time.Time) time.Duration {
	var h1, m1, h2, m2 int
	if n, err := fmt.Sscanf(hours, "%d:%d-%d:%d", &h1, &m1, &h2, &m2); n != 4 || err != nil {
		return 0
	}
	minute, from, to := now.Hour()*60+now.Minute(), h1*60+m1, h2*60+m2
	inside := minute >= from && minute < to
	if from > to {
		inside = minute >= from || minute < to
	}
	if !inside {
		return 0
	}
	y, mo, d := now.Date()
	end := time.Date(y, mo, d, h2, m2, 0, 0, now.Location())
	if !end.After(now) {
		end = time.Date(y, mo, d+1, h2, m2, 0, 0, now.Location())
	}
	return end.Sub(now)
}
