package synthesis

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// leastTogether is how many conversations or days two topics share at least.
const leastTogether = 3

// occasion is a conversation, or a day with memories.
type occasion struct {
	at     time.Time // of its first text
	spoken bool      // a conversation
}

// occasions are the conversations and days of the texts, in order of time, and of each text which it belongs to.
func (a *analysis) occasions() (list []occasion, of []int) {
	known := map[string]int{}
	of = make([]int, len(a.in.Texts))
	for i, t := range a.in.Texts {
		key := t.Parent
		if key == "" {
			key = t.At.In(a.in.Zone).Format(time.DateOnly)
		}
		n, ok := known[key]
		if !ok {
			n = len(list)
			known[key] = n
			list = append(list, occasion{t.At, t.Parent != ""})
		}
		of[i] = n
	}
	return list, of
}

// connections finds pairs of topics that share conversations or days more often than chance: by Fisher's exact test
// over the occasions from when both are there until one of them ends, with Holm's correction over all pairs. The
// bounds keep topics of one period from seeming connected because each of them belongs to it.
func (a *analysis) connections() {
	topics := a.topics()
	list, of := a.occasions()
	in := make([]map[int]bool, len(topics)) // occasions of each topic
	for g := range topics {
		in[g] = map[int]bool{}
		for _, m := range topics[g].members {
			in[g][of[m]] = true
		}
	}
	type pair struct{ x, y, shared, onlyX, onlyY, all, first, last int }
	var pairs []pair
	var p []float64
	for x := range topics {
		for y := x + 1; y < len(topics); y++ {
			xs, ys := sortedInts(in[x]), sortedInts(in[y])
			c := pair{x: x, y: y, first: max(xs[0], ys[0]), last: min(xs[len(xs)-1], ys[len(ys)-1])}
			c.all = c.last - c.first + 1
			for n := c.first; n <= c.last; n++ {
				switch {
				case in[x][n] && in[y][n]:
					c.shared++
				case in[x][n]:
					c.onlyX++
				case in[y][n]:
					c.onlyY++
				}
			}
			if min(c.onlyX, c.onlyY)+c.shared < leastTogether {
				continue
			}
			pairs = append(pairs, c)
			p = append(p, math.Exp(logTail(c.all, c.shared+c.onlyX, c.shared+c.onlyY, c.shared)))
		}
	}
	for i, q := range holm(p) {
		c := pairs[i]
		if q > significant || c.shared < leastTogether {
			continue
		}
		x, y := topics[c.x], topics[c.y]
		var members []int
		for _, m := range append(slices.Clone(x.members), y.members...) {
			if n := of[m]; n >= c.first && n <= c.last && in[c.x][n] && in[c.y][n] {
				members = append(members, m)
			}
		}
		slices.Sort(members)
		spoken := 0
		for n := range list {
			if n >= c.first && n <= c.last && in[c.x][n] && in[c.y][n] && list[n].spoken {
				spoken++
			}
		}
		unit := "on %d of %d days with one of them"
		switch spoken {
		case 0:
		case c.shared:
			unit = "in %d of %d conversations with one of them"
		default:
			unit = "in %d of %d conversations and days with one of them"
		}
		either := c.shared + c.onlyX + c.onlyY
		expected := float64(c.shared+c.onlyX) * float64(c.shared+c.onlyY) / float64(c.all)
		share := float64(c.shared) / float64(either)
		mood, _ := a.meanValence(members)
		a.add(finding{
			typ: "topic_connection", subject: strings.Join(sorted(x.key, y.key), " + "), subjects: []string{x.name, y.name}, members: members,
			description: fmt.Sprintf("*%s* is often together with *%s*: "+unit+", where chance would give %.1f%s", x.name, y.name, c.shared, either, expected, a.mood(members)),
			confidence:  0.7 + 0.15*share + 0.14*(1-math.Exp(-float64(c.shared)/5)),
			parts:       map[string]float64{"together": float64(c.shared), "expected": expected, "share": share, "p": q, "mood": mood - a.usual}, series: a.moods(members),
		})
	}
}

func sorted(list ...string) []string {
	slices.Sort(list)
	return list
}

func sortedInts(m map[int]bool) []int {
	out := make([]int, 0, len(m))
	for n := range m {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}
