package synthesis

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// leastTogether is the minimum number of conversations or days that two connected topics share.
const leastTogether = 3

// connectionsRight is the precision measured on 60 synthetic lives with two pairs of connected
// topics of random strength among eight, half of them with seasonal texts: 62 of 63, by the rule of
// succession. Neither the number nor the share of common occasions distinguished the wrong one.
const connectionsRight = 0.97

// occasion is a conversation, or a day with memories.
type occasion struct {
	at     time.Time // of its first text
	spoken bool      // a conversation, not a day
}

// occasions returns the conversations and days of the texts in chronological order, and for each
// text the index of its occasion.
func (a *analysis) occasions() (list []occasion, of []int) {
	if a.occasion != nil {
		return a.happened, a.occasion
	}
	defer func() { a.happened, a.occasion = list, of }()
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

// connections finds pairs of topics that share conversations or days more often than by chance,
// using Fisher's exact test over the occasions in the period in which both topics occur, with
// Holm's correction over all pairs. Restricting the period keeps topics of one period from
// appearing connected.
func (a *analysis) connections() {
	topics := a.topics()
	list, of := a.occasions()
	in := make([][]int, len(topics)) // occasions of each topic, sorted
	for g := range topics {
		for _, m := range topics[g].members {
			in[g] = append(in[g], of[m])
		}
		slices.Sort(in[g])
		in[g] = slices.Compact(in[g])
	}
	type pair struct {
		x, y        int
		shared      []int // common occasions
		nx, ny, all int   // number of occasions of x, of y and of all in the period
	}
	var pairs []pair
	var p []float64
	for x := range topics {
		for y := x + 1; y < len(topics); y++ {
			first, last := max(in[x][0], in[y][0]), min(in[x][len(in[x])-1], in[y][len(in[y])-1])
			xs, ys := within(in[x], first, last), within(in[y], first, last)
			if min(len(xs), len(ys)) < leastTogether {
				continue
			}
			c := pair{x: x, y: y, shared: both(xs, ys), nx: len(xs), ny: len(ys), all: last - first + 1}
			pairs = append(pairs, c)
			p = append(p, math.Exp(logTail(c.all, c.nx, c.ny, len(c.shared))))
		}
	}
	for i, q := range holm(p) {
		c := pairs[i]
		n := len(c.shared)
		if q > significant || n < leastTogether {
			continue
		}
		x, y := topics[c.x], topics[c.y]
		var members []int
		for _, m := range append(slices.Clone(x.members), y.members...) {
			if _, ok := slices.BinarySearch(c.shared, of[m]); ok {
				members = append(members, m)
			}
		}
		slices.Sort(members)
		spoken := 0
		for _, o := range c.shared {
			if list[o].spoken {
				spoken++
			}
		}
		unit := "on %d of %d days with one of them"
		switch spoken {
		case 0:
		case n:
			unit = "in %d of %d conversations with one of them"
		default:
			unit = "in %d of %d conversations and days with one of them"
		}
		either := c.nx + c.ny - n
		expected := float64(c.nx) * float64(c.ny) / float64(c.all)
		share := float64(n) / float64(either)
		mood, _ := a.meanValence(members)
		a.add(finding{
			typ: "topic_connection", subject: strings.Join(sorted(x.key, y.key), " + "), subjects: []string{x.name, y.name}, members: members,
			description: fmt.Sprintf("*%s* is often together with *%s*: "+unit+", where chance would give %.1f%s", x.name, y.name, n, either, expected, a.mood(members)),
			confidence:  connectionsRight * (1 - q),
			parts:       map[string]float64{"together": float64(n), "expected": expected, "share": share, "p": q, "topics": min(x.confidence, y.confidence), "mood": mood - a.usual}, series: a.moods(members),
		})
	}
}

func sorted(list ...string) []string {
	slices.Sort(list)
	return list
}

// within returns the numbers of a sorted list from first to last.
func within(list []int, first, last int) []int {
	from, _ := slices.BinarySearch(list, first)
	to, _ := slices.BinarySearch(list, last+1)
	return list[from:max(from, to)]
}

// both returns the numbers that are in both of two sorted lists.
func both(x, y []int) (out []int) {
	for len(x) > 0 && len(y) > 0 {
		switch {
		case x[0] < y[0]:
			x = x[1:]
		case x[0] > y[0]:
			y = y[1:]
		default:
			out, x, y = append(out, x[0]), x[1:], y[1:]
		}
	}
	return out
}
