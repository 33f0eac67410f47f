package voice

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"helix/backend/fault"
)

const (
	maxPhrase = 200 // characters
	maxSlots  = 6
	// A word of at least contentWord characters must be said, at least similarly, or the text means
	// something else: "keep the last memo" is not "delete the last memo".
	contentWord = 4
	similar     = 0.5
	maxHeard    = 60 // words of a text that is matched; a longer one is no command
)

// word is a word of a text as it is compared, with the text that it stands for.
type word struct{ plain, said string }

// fractionSlash separates the digits of ½ after normalization, which must not become the number 12.
const fractionSlash = '⁄'

// thousands reports whether exactly three digits follow a comma, which then only groups the digits.
func thousands(after []rune) bool {
	n := slices.IndexFunc(after, func(r rune) bool { return !unicode.IsDigit(r) })
	return n == 3 || n < 0 && len(after) == 3
}

// words splits a text into words for comparison: in lower case, without punctuation, and with
// number words as digits.
func words(text string) []word {
	var out []word
	for _, f := range strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r == '-' || r == '–' || r == '—' || r == '/' }) {
		plain := []rune(strings.ToLower(norm.NFKC.String(f)))
		kept := plain[:0:0]
		for i, r := range plain {
			between := i > 0 && i+1 < len(plain) && unicode.IsDigit(plain[i-1]) && unicode.IsDigit(plain[i+1])
			switch {
			case unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.M, r) || between && (r == ':' || r == '.' || r == fractionSlash):
				kept = append(kept, r)
			case between && r == ',' && !thousands(plain[i+1:]):
				kept = append(kept, '.')
			}
		}
		if len(kept) > 0 {
			out = append(out, word{string(kept), strings.TrimFunc(f, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) && r != '%' })})
		}
	}
	return digits(out)
}

var units = map[string]int{"zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
	"eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17, "eighteen": 18, "nineteen": 19}

var tens = map[string]int{"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}

var ordinals = map[string]string{"first": "1st", "second": "2nd", "third": "3rd", "fourth": "4th", "fifth": "5th", "sixth": "6th", "seventh": "7th", "eighth": "8th",
	"ninth": "9th", "tenth": "10th", "eleventh": "11th", "twelfth": "12th", "thirteenth": "13th", "fourteenth": "14th", "fifteenth": "15th", "twentieth": "20th", "thirtieth": "30th"}

// digits replaces number words, such as one hundred and five, by digits.
func digits(in []word) (out []word) {
	for i := 0; i < len(in); {
		if o, ok := ordinals[in[i].plain]; ok {
			out = append(out, word{o, in[i].said})
			i++
			continue
		}
		n, value := numberAt(in[i:])
		if n == 0 {
			out = append(out, in[i])
			i++
			continue
		}
		said := make([]string, n)
		for k := range n {
			said[k] = in[i+k].said
		}
		out = append(out, word{strconv.Itoa(value), strings.Join(said, " ")})
		i += n
	}
	return out
}

// numberAt returns how many words at the beginning of in are a number below a million, and the number.
func numberAt(in []word) (n, value int) {
	total, part, low := 0, 0, 100 // low: only a smaller number may follow within the hundreds
	for k, w := range in {
		plain := w.plain
		if plain == "and" && k > 0 && k+1 < len(in) && (strings.HasPrefix(in[k-1].plain, "hundred") || in[k-1].plain == "thousand") {
			_, unit := units[in[k+1].plain]
			_, ten := tens[in[k+1].plain]
			if unit || ten {
				continue
			}
			break
		}
		unit, isUnit := units[plain]
		ten, isTen := tens[plain]
		switch {
		case isUnit && unit < low && (unit > 0 || k == 0) && (unit < 10 || low == 100):
			part, low = part+unit, 0
		case isTen && low == 100:
			part, low = part+ten, 10
		case plain == "hundred" && part > 0 && part < 10:
			part, low = part*100, 100
		case plain == "thousand" && part > 0 && total == 0:
			total, part, low = part*1000, 0, 100
		default:
			return n, total + part
		}
		n = k + 1
	}
	return n, total + part
}

// phrase is a parsed trigger phrase: literals and slots in turn.
type phrase struct {
	parts   []part
	size    int      // characters of the literals
	content []string // words of the literals that must be said
	slots   []Slot
	filler  bool // the beginning or the end may be a word that is otherwise ignored there
}

// part is a literal or, if slot is not nil, a slot.
type part struct {
	literal []rune
	slot    *Slot
}

var (
	slotPattern = regexp.MustCompile(`^([a-z][a-zA-Z0-9_]{0,31}):(text|number|date|time|duration|enum\(([^(){}]*)\))$`)
	slotTypes   = "text, number, date, time, duration or enum(a,b)"
)

// parsePhrase parses a trigger phrase such as: remind me to {what:text} at {when:time}.
func parsePhrase(text string) (p phrase, err error) {
	refuse := func(format string, args ...any) error {
		return fault.InvalidField("triggerPhrase", fault.CodeInvalid, format, args...)
	}
	if n := len([]rune(text)); n == 0 || n > maxPhrase {
		return phrase{}, refuse("A phrase has 1 to %d characters.", maxPhrase)
	}
	p.slots = []Slot{}
	names := map[string]bool{}
	for rest := text; rest != ""; {
		before, after, slot := strings.Cut(rest, "{")
		if strings.ContainsRune(before, '}') {
			return phrase{}, refuse("The phrase has a } without a {.")
		}
		if l := []rune(joined(words(before))); len(l) > 0 {
			p.parts = append(p.parts, part{literal: l})
			p.size += len(l)
			for _, w := range words(before) {
				if utf8.RuneCountInString(w.plain) >= contentWord {
					p.content = append(p.content, w.plain)
				}
			}
		}
		if !slot {
			break
		}
		inner, tail, ok := strings.Cut(after, "}")
		m := slotPattern.FindStringSubmatch(strings.TrimSpace(inner))
		if !ok || m == nil {
			return phrase{}, refuse("A slot looks like {name:type}, with a type of %s.", slotTypes)
		}
		s := &Slot{Name: m[1], Type: m[2]}
		if strings.HasPrefix(m[2], "enum(") {
			s.Type = "enum"
			for v := range strings.SplitSeq(m[3], ",") {
				if v = strings.TrimSpace(v); v == "" || len(words(v)) == 0 || slices.Contains(s.Values, v) {
					return phrase{}, refuse("The values of the slot %q must differ and must not be empty.", s.Name)
				}
				s.Values = append(s.Values, v)
			}
		}
		switch {
		case names[s.Name]:
			return phrase{}, refuse("The phrase has two slots named %q.", s.Name)
		case len(names) == maxSlots:
			return phrase{}, refuse("A phrase has at most %d slots.", maxSlots)
		case len(p.parts) > 0 && p.parts[len(p.parts)-1].slot != nil:
			return phrase{}, refuse("Two slots need a word between them.")
		}
		names[s.Name] = true
		p.parts, p.slots = append(p.parts, part{slot: s}), append(p.slots, *s)
		rest = tail
	}
	if p.size < 2 {
		return phrase{}, refuse("A phrase needs at least one word that is not a slot.")
	}
	all := words(text)
	p.filler = p.parts[0].slot != nil || p.parts[len(p.parts)-1].slot != nil || len(withoutFillers(all)) < len(all)
	return p, nil
}

// key returns a phrase in the form in which two of them are compared.
func (p phrase) key() string {
	var out []string
	for _, x := range p.parts {
		if x.slot != nil {
			out = append(out, "{}")
		} else {
			out = append(out, string(x.literal))
		}
	}
	return strings.Join(out, " ")
}

func joined(w []word) string {
	out := make([]string, len(w))
	for i := range w {
		out[i] = w[i].plain
	}
	return strings.Join(out, " ")
}

// fillers are words before a command that are not compared.
var fillers = [][]string{{"please"}, {"hey", "helix"}, {"ok", "helix"}, {"okay", "helix"}, {"helix"}, {"um"}, {"uh"}}

// withoutFillers removes fillers from the beginning of a text, and a final please.
func withoutFillers(w []word) []word {
	for again := true; again; {
		again = false
		for _, f := range fillers {
			if len(w) > len(f) && slices.EqualFunc(w[:len(f)], f, func(a word, b string) bool { return a.plain == b }) {
				w, again = w[len(f):], true
			}
		}
	}
	if n := len(w) - 1; n > 0 && w[n].plain == "please" {
		w = w[:n]
	}
	return w
}

// found is a phrase in a text.
type found struct {
	score float64
	spans [][2]int // of the slots, in words
}

// heard is a text to be matched with phrases.
type heard struct {
	words  []word
	text   []rune
	starts []int // of each word in text; the last entry is the end
	ends   []int // ends[j] is the end of word j-1
	parsed map[string][]bool
	now    time.Time

	said  map[string]bool // content words
	solid string          // the text without spaces
	runes [][]rune        // the words
	rows  [3][]cell       // of literal
}

func hear(w []word, now time.Time) *heard {
	h := &heard{words: w, text: []rune(joined(w)), parsed: map[string][]bool{}, now: now, said: map[string]bool{}}
	for _, x := range w {
		h.solid += x.plain
		h.runes = append(h.runes, []rune(x.plain))
	}
	for i := range h.rows {
		h.rows[i] = make([]cell, len(h.text)+1)
	}
	at := 0
	h.ends = append(h.ends, 0)
	for _, x := range w {
		h.starts = append(h.starts, at)
		at += len([]rune(x.plain))
		h.ends = append(h.ends, at)
		at++
	}
	h.starts = append(h.starts, len(h.text))
	return h
}

// fits reports for all i < j whether words i to j are a value of the slot, at [i*(n+1)+j].
func (h *heard) fits(s *Slot) []bool {
	if s.Type == "text" {
		return nil
	}
	key := s.Type + "(" + strings.Join(s.Values, ",")
	if out, ok := h.parsed[key]; ok {
		return out
	}
	n := len(h.words)
	out := make([]bool, n*(n+1))
	for i := range n {
		for j := i + 1; j <= min(n, i+maxValue); j++ {
			_, ok := s.parse(h.words[i:j], h.now)
			out[i*(n+1)+j] = ok
		}
	}
	h.parsed[key] = out
	return out
}

// cell is the cost of an alignment, and the word at which its last literal begins.
type cell struct{ cost, from int32 }

const never = 1 << 20

// says returns how many content words of a phrase were said, at least similarly.
func (h *heard) says(p phrase) (n int) {
	for _, c := range p.content {
		said, ok := h.said[c]
		if !ok {
			r := []rune(c)
			said = strings.Contains(h.solid, c) || slices.ContainsFunc(h.runes, func(w []rune) bool {
				longer := max(len(r), len(w))
				limit := (1 - similar) * float64(longer)
				return float64(longer-min(len(r), len(w))) <= limit && float64(distance(r, w)) <= limit
			})
			h.said[c] = said
		}
		if said {
			n++
		}
	}
	return n
}

// distance returns the optimal string alignment distance.
func distance(a, b []rune) int {
	h := &heard{words: make([]word, 1), text: b, starts: []int{0, len(b)}, ends: []int{0, len(b)}}
	for i := range h.rows {
		h.rows[i] = make([]cell, len(b)+1)
	}
	next := make([]cell, 2)
	h.literal(a, []cell{{}, {cost: never}}, next)
	return int(next[1].cost)
}

// match aligns a phrase with the whole text. The score is 1 - distance/length, with the optimal
// string alignment distance of the literals and the longer of their lengths in phrase and text. If
// typed is false, slots accept any words.
func (h *heard) match(p phrase, typed bool) (out found, ok bool) {
	n := len(h.words)
	costs := make([]cell, n+1) // after the parts so far, ending before word j
	for j := range costs {
		costs[j].cost = never
	}
	costs[0].cost = 0
	froms := make([][]int32, len(p.parts))
	for k, x := range p.parts {
		next := make([]cell, n+1)
		if x.slot != nil {
			next = h.slot(x.slot, costs, typed)
		} else {
			h.literal(x.literal, costs, next)
		}
		froms[k] = make([]int32, n+1)
		for j := range next {
			froms[k][j] = next[j].from
		}
		costs = next
	}
	if costs[n].cost >= never {
		return out, false
	}
	size, at := 0, n
	for k := len(p.parts) - 1; k >= 0; k-- {
		from := int(froms[k][at])
		if p.parts[k].slot != nil {
			out.spans = append(out.spans, [2]int{from, at})
		} else if from < at {
			size += h.ends[at] - h.starts[from]
		}
		at = from
	}
	slices.Reverse(out.spans)
	out.score = max(0, 1-float64(costs[n].cost)/float64(max(size, p.size)))
	return out, true
}

func (h *heard) slot(s *Slot, costs []cell, typed bool) []cell {
	n := len(h.words)
	next := make([]cell, n+1)
	var fits []bool
	if typed {
		fits = h.fits(s)
	}
	for j := range next {
		next[j].cost = never
		for i := range j {
			if costs[i].cost < next[j].cost && (fits == nil || fits[i*(n+1)+j]) {
				next[j] = cell{costs[i].cost, int32(i)}
			}
		}
	}
	return next
}

// literal computes the costs after a literal from those before it.
func (h *heard) literal(l []rune, costs, next []cell) {
	n := len(h.words)
	width := len(h.text) + 1
	rows := h.rows
	row := rows[0]
	for x := range row {
		row[x] = cell{cost: never}
		if x > 0 {
			row[x] = cell{row[x-1].cost + 1, row[x-1].from}
		}
	}
	for i := range n {
		if at := h.starts[i]; costs[i].cost < row[at].cost {
			row[at] = cell{costs[i].cost, int32(i)}
		}
		for x := h.starts[i] + 1; x < width; x++ {
			if c := row[x-1].cost + 1; c < row[x].cost {
				row[x] = cell{c, row[x-1].from}
			}
		}
	}
	for y, r := range l {
		prev := rows[y%3]
		row = rows[(y+1)%3]
		row[0] = cell{prev[0].cost + 1, prev[0].from}
		for x := 1; x < width; x++ {
			best := cell{prev[x].cost + 1, prev[x].from}
			if c := row[x-1].cost + 1; c < best.cost {
				best = cell{c, row[x-1].from}
			}
			c := prev[x-1].cost
			if h.text[x-1] != r {
				c++
			}
			if c < best.cost {
				best = cell{c, prev[x-1].from}
			}
			if y > 0 && x > 1 && h.text[x-1] == l[y-1] && h.text[x-2] == r {
				if before := rows[(y+2)%3][x-2]; before.cost+1 < best.cost {
					best = cell{before.cost + 1, before.from}
				}
			}
			row[x] = best
		}
	}
	for j := range next {
		next[j] = cell{costs[j].cost + int32(len(l)), int32(j)} // all of it is missing
		if c := row[h.ends[j]]; j > 0 && c.cost < next[j].cost && int(c.from) < j {
			next[j] = c
		}
	}
}
