package synthesis

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"helix/backend/lazyregexp"
)

// statement is a sentence in which a person expresses a plan, a wish, a fear or a value.
type statement struct {
	typ    string
	text   int    // index of the text
	object string // in the words of the text
	stems  []string
	sure   float64 // how certain the meaning of the sentence is
}

// Adverbs between a subject and its verb that do not change the meaning.
const adverbs = `(?:(?:really|still|also|always|just|definitely|actually|so|truly|totally|now|currently|seriously|finally|both|even|kind of|kinda|very) )*`

// prospectiveCue is a pattern for statements about the future. Its last group is the object; a
// preceding group is a verb that belongs to it.
type prospectiveCue struct {
	typ  string
	sure float64
	re   *regexp.Regexp
}

func future(typ string, sure float64, pattern string) prospectiveCue {
	return prospectiveCue{typ, sure, regexp.MustCompile(`(?i)(?:^|[^\p{L}'])` + strings.ReplaceAll(pattern, "~", adverbs) + ` (.+)$`)}
}

// bareFuture matches a plan without a subject, which is only recognized at the beginning of a sentence.
const bareFuture = `(?i)^(?:gonna|planning to|must|need to|have to)`

// The first matching cue is used, so specific ones come first. They are compiled at the first use:
// it takes longer than all other preparations of a start.
var prospectiveCues = sync.OnceValue(func() []prospectiveCue {
	return []prospectiveCue{
		future("possible_self", 0.8, `i(?:'d| would)? ~(?:want to|wanna|hope to|love to|like to|dream of|plan to|aim to|aspire to) ~(?:be|become|being|becoming) an?`),
		future("possible_self", 0.8, `i (?:can |could )?(?:see|picture|imagine) myself ~(?:as|being|becoming|living|working)`),
		future("possible_self", 0.75, `i(?:'d| would)? ~(?:want|like|hope) to ~be(?:come)? ~(?:more|better)`),
		future("possible_self", 0.7, `i could ~become an?`),
		future("possible_self", 0.75, `i ~(?:want|hope) to be(?:come)? (?:the kind of (?:person|man|woman|parent) (?:who|that)|someone (?:who|that))`),
		future("aspiration", 0.85, `(?:my|our) (?:biggest |big |greatest |lifelong |ultimate )?dream (?:is|was|has always been)(?: to)?`),
		future("aspiration", 0.8, `(?:i|we)(?:'ve| have) ~(?:always |long )?(?:wanted|dreamed|dreamt|wished)(?: to| of)`),
		future("aspiration", 0.75, `(?:i|we)(?:'m|'re| am| are) ~(?:hoping|dreaming|longing)(?: to| of| for)`),
		future("aspiration", 0.72, `(?:i|we) ~(?:hope|dream|wish|long|aspire)(?: to| of| i could| we could| that i can)`),
		future("aspiration", 0.7, `(?:i|we)(?:'d| would) ~love to`),
		future("goal", 0.7, `(?:i|we)(?:'d| would) ~like to`),
		future("goal", 0.9, `(?:my|our) (?:main |big |biggest |next |new |long-term |short-term )?(?:goal|aim|plan|objective|target|resolution|ambition|intention|mission)s? (?:is|are|for \w+(?: \w+)? is)(?: to)?`),
		future("goal", 0.85, `(?:i|we)(?:'ve| have)? ~(?:decided|resolved|committed|promised myself|made up my mind)(?: to| on)`),
		future("goal", 0.85, `(?:i|we)(?:'m|'re| am| are) ~(?:planning|determined|aiming)(?: to| on| for)`),
		future("goal", 0.8, `(?:i|we)(?:'ve| have) been ~(?:planning|wanting|meaning|hoping) to`),
		future("goal", 0.7, `(?:i|we)(?:'m|'re| am| are) ~(?:thinking (?:of|about)|considering)`),
		future("goal", 0.85, `(?:i|we)(?:'m|'re| am| are) ~((?:preparing|training|studying|saving(?: up)?|working)(?: to| on| for| towards?))`),
		future("goal", 0.85, `(?:i|we) ~(?:plan|intend|aim)(?: to| on)`),
		future("goal", 0.75, `(?:i|we)(?:'ve| have)? ~((?:signed up|applied|enrolled|registered)(?: for| to| in))`),
		future("goal", 0.75, `(?:i|we) ~(?:want to|wanna)`),
		future("goal", 0.7, `(?:i|we)(?:'ll| will) ~((?:learn|start|stop|quit|apply|finish|try))`),
		future("goal", 0.7, `i(?:'m| am) ~(?:going to|gonna)`),
		future("goal", 0.7, `i(?:'m| am) ~((?:looking|learning)(?: to| into| for))`),
		future("goal", 0.7, `i(?:'m| am) ~trying to`),
		future("goal", 0.65, `(?:i|we) ~(?:need|have|ought) to`),
		future("goal", 0.65, `i ~(?:must|should)`),
		{"goal", 0.75, regexp.MustCompile(bareFuture + ` (.+)$`)},
		future("goal", 0.8, `ich (?:will|möchte|plane|habe vor)(?: unbedingt| endlich| nächstes jahr)?`),
		future("fear", 0.85, `my (?:biggest|greatest|worst|main) (?:fear|worry) (?:is|was)(?: that)?`),
		future("fear", 0.85, `i(?:'m| am|'ve been| have been) ~(?:~)(?:a bit |a little |kind of |pretty )?(?:afraid|scared|terrified|worried|anxious|nervous)(?: of| about| that| to)?`),
		future("fear", 0.8, `i ~(?:fear|dread|worry)(?: about| that)?`),
		future("fear", 0.8, `i(?:'m| am)? ~(?:keep |can't stop )?(?:dreading|worrying)(?: about| that)?`),
		future("fear", 0.75, `what if (?:i|we)`),
		future("fear", 0.8, `ich habe angst(?:,| vor| dass)?`),
		future("value", 0.8, `i ~(?:value|cherish|believe in|care (?:deeply |a lot )?about|stand (?:up )?for)`),
		future("value", 0.8, `what matters (?:most )?to me is`),
		future("value", 0.75, `it(?:'s| is) ~(?:important|essential) (?:to|for) me (?:to|that)`),
	}
})

// frightening matches fears whose object comes first.
var frightening = lazyregexp.New(`(?i)^(?:and |but |so )?((?:the )?(?:thought|idea|prospect) of .{3,60}?) ` + adverbs + `(?:scares|terrifies|frightens|worries) (?:me|us)\b`)

// ownFuture matches sentences about their writer, or in a form that may omit the writer.
var ownFuture = lazyregexp.New(`(?:^|[^\p{L}])(?:i|we|my|our|me|ich)(?:$|[^\p{L}])|^(?:gonna|planning|must|need|have)`)

// valued matches values whose object comes first.
var valued = lazyregexp.New(`(?i)^(?:and |but |so |well,? |honestly,? )?([\p{L}' ,-]{3,60}?) (?:is|are|means|mean|matters?|has always been) ` + adverbs + `(?:important|everything|essential|a lot|the world|the most important \w+) (?:to|for) me\b`)

var (
	phraseEnd = lazyregexp.New(`(?i)(?:[,;:.!?…—–()]| - | because | so that | so i | but | and then | and i | and we | when | if | while | (?:since|after|before) (?:i|we|you|he|she|it|they|that|this|everything|everyone)\b| though | although | as i | lol\b| haha\b).*$`)
	unreal    = lazyregexp.New(`(?i)\b(?:if|unless|whenever|pretend|imagine|suppose|said|says|told me|asked|wondered|as if)\b[^.]{0,40}$|\b(?:thinks|believes|suggests|suggested|insists|claims)(?: that)?\s*$`)
	reached   = lazyregexp.New(`(?i)\b(finally|finished|completed|achieved|passed|graduated|accomplished|reached|succeeded|made it|did it|pulled it off|got (?:the|my|in|accepted|hired|promoted)|launched|opened|won|adopted|geschafft)\b`)
	dropped   = lazyregexp.New(`(?i)\b(gave up|giving up|given up|quit|decided not to|decided against|no longer (?:want|plan|going)|changed my mind|cancell?ed|dropped out|not going to|aufgegeben)\b`)
	// Vague words and pronouns form an object only together with two more specific words.
	vague      = set("keep see check look say tell ask know give share show hear take try make let get do have be think talk chat catch come bring put continue go stay use")
	pronoun    = set("it that this them those these one")
	determiner = set("a an the my our this that her his their")
	looseStart = set("and or but so that which as than then")
	looseEnd   = set("and or the a an of my our his her their that but so as is are was called named titled")
	// A phrase that ends by itself may end with one of these, such as "someone to talk to".
	looseCut  = set("to for with in on at by from about")
	smallVerb = set(`go see check look say tell ask know give share show hear take try make let get do have be think talk chat catch keep come bring put thank congratulate help join watch meet visit eat sleep relax rest thinking going getting`)
)

// guesses follow a "must" that expresses an assumption: must be hard, must have been fun.
var guesses = set("be have feel look seem mean")

// hints are substrings of which every cue contains at least one. The cues are matched only if one occurs.
var hints = strings.Fields(`want wanna hope hoping love like dream plan aim aspir see picture imagine could become wish long goal target objective resol
	ambition intent intend mission decid commit promis made determin mean think consider prepar train study studi saving work signed appl enroll regist will 'll going gonna look
	learn trying need have 've ought must should fear worr afraid scar terrif anxious nervous dread what value cherish believe care stand important essential
	möchte plane habe frighten`)

// oneWord lists the types whose object may be a single word: to travel, animals.
var oneWord = set("possible_self value aspiration")

const (
	objectWords  = 14
	leastOutcome = 2 // minimum number of stems in common with a later text
)

// prospective finds plans, wishes, fears and values, groups those about the same thing, and
// determines their outcome from later texts.
func (a *analysis) prospective() {
	out := &ProspectiveSelf{Aspirations: []string{}, Fears: []string{}, IdentityThemes: []string{}, GrowthAreas: []string{}}
	a.out.ProspectiveSelf = out
	var list []statement
	for i, t := range a.in.Texts {
		for _, s := range sentences(t.Body) {
			if st, ok := readStatement(s); ok {
				st.text = i
				list = append(list, st)
			}
		}
	}
	goals, moved := 0, 0
	for _, g := range link(list, a.in.Texts) {
		state := a.outcome(g)
		f := a.statementFinding(g, state)
		a.add(f)
		switch object := g[0].object; g[0].typ {
		case "goal":
			if goals++; state != "open" && state != "dropped" {
				moved++
			}
			if state == "moved" {
				out.GrowthAreas = append(out.GrowthAreas, object)
			}
		case "aspiration":
			out.Aspirations = append(out.Aspirations, object)
		case "fear":
			out.Fears = append(out.Fears, object)
		default:
			out.IdentityThemes = append(out.IdentityThemes, object)
		}
	}
	if goals > 0 {
		out.GoalAlignment = round(float64(moved) / float64(goals))
	}
}

// readStatement parses one sentence. ok is false if it does not express a future or a value of its writer.
func readStatement(s sentence) (st statement, ok bool) {
	if m := valued().FindStringSubmatch(s.text); m != nil && !s.question && !negation().MatchString(m[0]) {
		st = statement{typ: "value", object: strings.TrimSpace(m[1]), sure: 0.8}
		st.stems = contentStems(st.object)
		first, _, _ := strings.Cut(strings.ToLower(st.object), " ")
		if len(st.stems) > 0 && !toYou().MatchString(st.object) && !pronoun[first] && !looseEnd[first] && !looseCut[first] && !strings.Contains(st.object, ",") {
			return st, true
		}
	}
	if m := frightening().FindStringSubmatch(s.text); m != nil && !s.question && !negation().MatchString(m[0]) {
		st = statement{typ: "fear", object: m[1], sure: 0.8, stems: contentStems(m[1])}
		return st, len(st.stems) > 0 && !toYou().MatchString(m[1])
	}
	lower := strings.ToLower(s.text)
	if !ownFuture().MatchString(lower) ||
		!slices.ContainsFunc(hints, func(h string) bool { return strings.Contains(lower, h) }) {
		return st, false
	}
	for _, c := range prospectiveCues() {
		at := c.re.FindStringSubmatchIndex(s.text)
		if at == nil {
			continue
		}
		before, verb, object := s.text[:at[0]], "", s.text[at[len(at)-2]:at[len(at)-1]]
		if len(at) > 4 {
			verb = s.text[at[2]:at[3]] + " "
		}
		if strings.HasPrefix(c.re.String(), bareFuture) && before != "" {
			continue
		}
		if s.question && !(c.typ == "fear" && strings.Contains(strings.ToLower(s.text), "what if")) || unreal().MatchString(before) || negation().MatchString(before) {
			continue
		}
		words := strings.Fields(phraseEnd().ReplaceAllString(object, ""))
		cutOff := len(words) > objectWords
		words = words[:min(len(words), objectWords)]
		for len(words) > 0 {
			if last := strings.ToLower(words[len(words)-1]); !looseEnd[last] && !(cutOff && looseCut[last]) {
				break
			}
			words = words[:len(words)-1]
		}
		if len(words) == 0 {
			continue
		}
		first := strings.ToLower(words[0])
		if r, _ := utf8.DecodeRuneInString(first); !unicode.IsLetter(r) && !unicode.IsDigit(r) || looseStart[first] {
			continue
		}
		if considers := strings.Contains(c.re.String(), "considering"); first == "it" || first == "them" || considers && !strings.HasSuffix(first, "ing") && !determiner[first] {
			continue // such as "working on it" or "thinking about you"
		}
		if first == "not" && c.typ != "fear" || guesses[first] && strings.HasPrefix(c.re.String(), bareFuture) {
			continue
		}
		if determiner[first] && strings.Contains(s.text[:at[len(at)-2]], "going to") {
			verb = "go to "
		}
		st = statement{typ: c.typ, object: verb + strings.Join(words, " "), sure: c.sure}
		st.stems = contentStems(st.object)
		least := 1
		last := strings.ToLower(words[len(words)-1])
		second := strings.ToLower(words[min(1, len(words)-1)])
		if c.typ != "value" && (vague[first] && !determiner[second] && c.sure < 0.8 || pronoun[last] || pronoun[second] && second != "this" && len(words) < 4) {
			least = 2 // such as "to see it" or "to keep going"
		}
		if c.typ != "fear" && (len(st.stems) < least || len(words) < 2 && verb == "" && !oneWord[c.typ] || toYou().MatchString(object)) || len(st.stems) == 0 {
			continue
		}
		if cutOff {
			st.object += " …"
		}
		return st, true
	}
	return st, false
}

func contentStems(text string) (out []string) {
	for _, t := range tokens(text) {
		if !slices.Contains(out, t.stem) && !smallVerb[t.stem] {
			out = append(out, t.stem)
		}
	}
	return out
}

func overlap(a, b []string) (both int) {
	for _, x := range a {
		if slices.Contains(b, x) {
			both++
		}
	}
	return both
}

// link groups the statements of one writer and type that are about the same thing: they have half
// of their words, or two of them, in common.
func link(list []statement, texts []Text) (groups [][]statement) {
	for _, s := range list {
		placed := false
		for g := range groups {
			first := groups[g][0]
			if first.typ != s.typ || texts[first.text].Speaker != texts[s.text].Speaker {
				continue
			}
			if slices.ContainsFunc(groups[g], func(o statement) bool {
				both := overlap(o.stems, s.stems)
				return both >= 2 && 3*both >= max(len(o.stems), len(s.stems)) || both > 0 && 2*both >= len(o.stems)+len(s.stems)-both
			}) {
				groups[g], placed = append(groups[g], s), true
				break
			}
		}
		if !placed {
			groups = append(groups, []statement{s})
		}
	}
	return groups
}

// outcome derives the outcome of a plan from later texts of the writer: reached, dropped, moved if
// they mention it again on another day, else open.
func (a *analysis) outcome(g []statement) string {
	first := a.in.Texts[g[0].text]
	var stems []string
	for _, s := range g {
		for _, x := range s.stems {
			if !slices.Contains(stems, x) {
				stems = append(stems, x)
			}
		}
	}
	state := "open"
	last := a.in.Texts[g[len(g)-1].text]
	if last.At.Sub(first.At) >= day {
		state = "moved"
	}
	if g[0].typ == "fear" || g[0].typ == "value" {
		return state
	}
	for i := g[0].text + 1; i < len(a.in.Texts); i++ {
		t := a.in.Texts[i]
		if t.Speaker != first.Speaker || t.At.Sub(first.At) < day {
			continue
		}
		if overlap(stems, contentStems(t.Body)) < min(leastOutcome, len(stems)) || len(stems) < leastOutcome {
			continue
		}
		for _, s := range sentences(t.Body) {
			if s.question || overlap(stems, contentStems(s.text)) < leastOutcome {
				continue
			}
			switch {
			case cued(dropped(), s.text):
				state = "dropped"
			case cued(reached(), s.text) && firstPerson().MatchString(s.text):
				state = "reached"
			}
		}
	}
	return state
}

var firstPerson = lazyregexp.New(`(?i)(?:^|[^\p{L}])(i|we|my|our|i've|ich|wir)(?:$|[^\p{L}])`)

var stateWords = map[string]string{
	"open": "", "moved": "; it came up again later", "reached": "; a later text says it was done", "dropped": "; a later text says it was given up",
}

// statementWords name what a statement is about: one of the person's own, and somebody else's.
var statementWords = map[string][2]string{
	"goal": {"a plan", "a plan"}, "aspiration": {"a wish", "a wish"}, "fear": {"a worry", "a worry"},
	"possible_self": {"who you want to become", "who they want to become"}, "value": {"what matters to you", "what matters to them"},
}

func (a *analysis) statementFinding(g []statement, state string) finding {
	var members []int
	miss := 1.0
	for k, s := range g {
		if k == 0 || !slices.Contains(members, s.text) {
			members = append(members, s.text)
		}
		if k == 0 {
			miss = 1 - s.sure
		} else if len(members) > 1 {
			miss *= 0.6
		}
	}
	first := a.in.Texts[members[0]]
	who, what := a.author(members[0]), statementWords[g[0].typ][1]
	if who == "you" {
		what = statementWords[g[0].typ][0]
	}
	wrote := fmt.Sprintf("On %s %s wrote about %s", first.At.In(a.in.Zone).Format("2 January 2006"), who, what)
	if n := len(members); n > 1 {
		wrote = fmt.Sprintf("%s wrote about %s in %s %s", title(who), what, a.number(members), a.span(first.At, a.in.Texts[members[n-1]].At))
	}
	when := ""
	if due, ok := dueDate(g[0].object+" "+first.Body, first.At.In(a.in.Zone)); ok && g[0].typ == "goal" {
		when = ", planned for " + due
	}
	mood, _ := a.meanValence(members)
	key := slices.Clone(g[0].stems)
	slices.Sort(key)
	parts := map[string]float64{"wording": g[0].sure, "mentions": float64(len(members)), "mood": mood - a.usual}
	return finding{
		typ: g[0].typ, subject: strings.ToLower(first.Speaker) + ":" + strings.Join(key, " "), subjects: []string{g[0].object}, members: members,
		description: fmt.Sprintf("%s: *%s*%s%s", wrote, g[0].object, when, stateWords[state]),
		confidence:  min(0.97, 1-miss) * (1 - 0.02*math.Max(0, float64(2-len(g[0].stems)))), parts: parts, series: a.moods(members),
	}
}

var (
	relativeDay = lazyregexp.New(`(?i)\b(tomorrow|next week|next month|next year|this weekend|next weekend|next (monday|tuesday|wednesday|thursday|friday|saturday|sunday)|in (a|one|two|three|four|five|six|\d{1,2}) (day|week|month|year)s?)\b`)
	inMonth     = lazyregexp.New(`\b(?:in|by|until|this|next) (January|February|March|April|May|June|July|August|September|October|November|December)\b`)
	numbers     = map[string]int{"a": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
)

// dueDate returns the date that a text sets, relative to the time of the text.
func dueDate(text string, at time.Time) (string, bool) {
	if m := relativeDay().FindStringSubmatch(text); m != nil {
		switch w := strings.ToLower(m[1]); {
		case w == "tomorrow":
			return at.AddDate(0, 0, 1).Format("2 January 2006"), true
		case w == "next week":
			return "the week of " + at.AddDate(0, 0, 8-isoDay(at)).Format("2 January 2006"), true
		case strings.HasSuffix(w, "weekend"):
			d := 6 - isoDay(at)
			if strings.HasPrefix(w, "next") || d < 0 {
				d += 7
			}
			return "the weekend of " + at.AddDate(0, 0, d).Format("2 January 2006"), true
		case w == "next month":
			return time.Date(at.Year(), at.Month()+1, 1, 0, 0, 0, 0, at.Location()).Format("January 2006"), true
		case w == "next year":
			return fmt.Sprint(at.Year() + 1), true
		case m[2] != "":
			for d := 1; d <= 7; d++ {
				if next := at.AddDate(0, 0, d); strings.EqualFold(next.Weekday().String(), m[2]) {
					return next.Format("2 January 2006"), true
				}
			}
		case m[3] != "":
			n := numbers[strings.ToLower(m[3])]
			if n == 0 {
				fmt.Sscan(m[3], &n) //nolint:errcheck // digits, as matched
			}
			switch strings.ToLower(m[4]) {
			case "day":
				return at.AddDate(0, 0, n).Format("2 January 2006"), true
			case "week":
				return "about " + at.AddDate(0, 0, 7*n).Format("2 January 2006"), true
			case "month":
				return at.AddDate(0, n, 0).Format("January 2006"), true
			default:
				return fmt.Sprint(at.Year() + n), true
			}
		}
	}
	if m := inMonth().FindStringSubmatch(text); m != nil {
		month, err := time.Parse("January", m[1])
		if err == nil {
			year := at.Year()
			if month.Month() < at.Month() {
				year++
			}
			return fmt.Sprintf("%s %d", m[1], year), true
		}
	}
	return "", false
}

// isoDay returns 1 for Monday to 7 for Sunday.
func isoDay(t time.Time) int { return (int(t.Weekday())+6)%7 + 1 }
