package textmine

import (
	"slices"
	"strings"
	"time"
)

// ProspectKind says how a person speaks of what may come.
type ProspectKind string

// Kinds of prospects.
const (
	Goal         ProspectKind = "goal"
	Aspiration   ProspectKind = "aspiration"
	Fear         ProspectKind = "fear"
	PossibleSelf ProspectKind = "possible_self"
	Value        ProspectKind = "value"
)

// Prospect is a plan, wish, fear or value of the person who speaks.
type Prospect struct {
	Span       // from the cue to the end of the object, or the other way round
	Kind       ProspectKind
	Object     string // what it is about, as written
	Obligation bool   // a goal that one must reach rather than wants to
	Due        *Date  // the first date that the sentence names after the cue
}

// OutcomeKind says what became of a prospect.
type OutcomeKind string

// Kinds of outcomes. A prospect without one is open.
const (
	Moved   OutcomeKind = "moved" // progress, or another date
	Reached OutcomeKind = "reached"
	Dropped OutcomeKind = "dropped"
)

// Outcome is a sign that something planned went on or ended.
type Outcome struct {
	Span
	Kind   OutcomeKind
	Object string // as written; may be empty
}

// pattern is what follows a subject, or "my" for nouns. Words are alternatives between bars, and
// adverbs may stand between them. A + needs a verb behind it.
type pattern struct {
	words      [][]string
	kind       ProspectKind
	outcome    OutcomeKind
	obligation bool
	verb       bool // a bare verb must follow
	polite     bool // used in small talk: some verbs behind it mean nothing
	vague      bool // an outcome that needs no object, and has one only after certain words
}

func patterns(kind ProspectKind, outcome OutcomeKind, lines string) (out []pattern) {
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		p := pattern{kind: kind, outcome: outcome}
		for {
			if rest, ok := strings.CutSuffix(line, " +"); ok {
				line, p.verb = rest, true
			} else if rest, ok := strings.CutSuffix(line, " must"); ok {
				line, p.obligation = rest, true
			} else if rest, ok := strings.CutSuffix(line, " ."); ok {
				line, p.vague = rest, true
			} else if rest, ok := strings.CutSuffix(line, " polite"); ok {
				line, p.polite = rest, true
			} else {
				break
			}
		}
		for w := range strings.FieldsSeq(line) {
			p.words = append(p.words, strings.Split(w, "|"))
		}
		out = append(out, p)
	}
	return out
}

// The patterns after "I" and "we" (or "ich" and "wir"), the more special ones first.
var (
	afterSubject = slices.Concat(
		patterns(PossibleSelf, "", `
			see|imagine|picture myself
			can|could see|imagine|picture myself
			want|hope|aspire|wish|intend|plan to be|become
			would love|like to be|become
			am|are hoping|trying|working|determined to be|become
			am going to be|become
			could become
			am becoming
			have always|long wanted to be|become
			sehe mich als
			möchte|will werden`),
		patterns(Aspiration, "", `
			would love to + polite
			hope to +
			am|are hoping to +
			am|are hoping for
			hope|wish that i|we
			hope i|we
			wish i|we could
			dream of|about
			am|are dreaming of|about
			have always|long wanted to +
			have always|long wanted a|an|my
			have wanted to +
			have dreamed|dreamt of|about
			have always|long dreamed|dreamt of|about
			aspire to
			long to|for
			hoffe
			träume von|davon
			wünsche mir`),
		patterns(Fear, "", `
			am|are afraid|scared|frightened|terrified|petrified of|that|to|about
			am|are afraid|scared|frightened|terrified i|we
			am|are worried|anxious|nervous|stressed|panicking about|that
			am|are worried|anxious i|we
			worry about|that|i|we
			keep worrying about|that
			am|are worrying about|that
			fear that|i|we|for
			fear
			am|are dreading
			dread
			have a|this fear of|that
			habe angst vor|dass
			fürchte
			mache mir sorgen um|dass`),
		patterns(Value, "", `
			care about|for
			care deeply|so|very about
			care a lot|great about
			believe in
			value
			cherish
			am|are passionate about
			stand for|by
			stand up for
			live by
			prioritize
			will always stand|speak
			will never compromise|lie|betray`),
		patterns(Goal, "", `
			am|are going to + polite
			am|are planning to|on
			am|are planning a|an|my|our
			have been planning|wanting|meaning to +
			am|are trying|aiming|looking|preparing to + polite
			have been thinking of|about
			am|are thinking of|about polite
			am|are considering
			am|are aiming|training|preparing for
			am|are saving for|up
			am|are working toward|towards
			am|are working on polite
			am|are determined|set|committed to|on
			have|has decided to|on
			decided to +
			have made up my mind to
			made up my mind to
			have promised myself to|that
			promised myself to|that
			have set myself
			set myself
			intend to +
			aim to|for
			plan to|on
			plan a|an|my|our
			want to + polite
			want a|an|my|our polite
			would like to + polite
			will try to + polite
			will start|stop|quit|learn|apply|finish
			need to + must polite
			have to + must polite
			have got to + must polite
			must + must polite
			should + must polite
			ought to + must polite
			am supposed to + must polite
			habe vor
			plane
			möchte
			muss must`),
		patterns("", Dropped, `
			gave|give|given up .
			am giving up .
			have given up .
			quit
			have quit
			dropped|abandoned|scrapped|cancelled|canceled
			dropped out .
			decided not to
			have decided not to
			decided against
			have decided against
			changed my|our mind .
			have changed my|our mind .
			called off|it
			no longer want|plan to
			have lost interest in
			lost interest in
			stopped trying|looking
			habe aufgegeben`),
		patterns("", Reached, `
			finally did|got|made|finished|passed|bought|moved|opened|launched|ran|quit|found|won|learned|booked|paid|signed|completed|published|submitted|adopted
			finished|completed|achieved|accomplished|graduated|succeeded
			have finished|completed|achieved|accomplished|graduated|succeeded|reached|passed
			passed my|the|all
			reached my|our|the
			managed to
			have managed to
			got the job|role|position|part|place|grant|scholarship|visa|apartment|flat|house .
			got accepted|promoted|hired|engaged|certified .
			got into
			did it .
			made it .
			ran my first
			won the|first
			launched|published
			habe geschafft|bestanden`),
		patterns("", Moved, `
			made progress
			am|are making progress
			am|are halfway|almost|nearly
			am|are getting closer|better
			have made progress
			signed up
			have signed up
			enrolled|registered in|for|at
			have enrolled|registered in|for|at
			applied to|for
			have applied to|for
			have started|begun
			started|began
			took my|the first
			postponed|rescheduled|delayed
			have postponed|rescheduled|delayed
			pushed it|that|back|the
			moved it|the to|date|deadline`),
	)
	// afterMy follows "my" and "our"; some words may stand before the verb.
	afterMy = slices.Concat(
		patterns(Goal, "", "goal|goals|plan|plans|aim|target|resolution|mission|ambition|intention|objective|priority"),
		patterns(Aspiration, "", "dream|dreams|hope|wish|aspiration|ziel|traum|wunsch"),
		patterns(Fear, "", "fear|fears|worry|nightmare|concern|angst"),
	)
)

var (
	firstPerson  = set("i we ich wir")
	otherPersons = set("he she they you it who er sie ihr")
	adverbs      = set(`really still just always definitely actually also so now currently finally only mainly honestly truly even kind sort of
		seriously probably maybe very pretty quite a bit deeply too already desperately absolutely secretly sometimes often genuinely super totally
		do myself lately recently both all again then eventually someday certainly slowly simply wirklich immer sehr gern gerne endlich auch`)
	interjections = set("yeah yes yep well so oh hey wow ok okay no nah also and but anyway honestly lol haha right")
	conditions    = set("if whether unless when whenever do did does should would could can will shall wenn falls ob")
	reports       = set("says say said thinks thought insists told tells believes suggests suggested claims wants asked")
	linking       = set("that me us")

	notVerbs = set(`the a an my our your his her their this that these those it them work school church bed college home sleep town
		and or but me him us you something anything nothing in on at with for to of`)
	smallTalk = set("say admit agree tell ask know hear thank mention confess wonder apologize check remember think believe let wish")
	invited   = set("chat talk catch hang come join see hear")
	farewells = set("go run head leave sleep wait rush")
	// states are what "be" means when it speaks of no self.
	states = set(`there able with sure clear honest part home back in on at ready careful done around here late early close out fair less over using doing going working quick frank prepared`)
	// selves begin what a person can be, rather than how.
	selves     = set("a an the my our someone somebody like more better one her his")
	endings    = set("to through into out on of about again the")
	guesses    = set("be have feel seem look") // it must have been hard
	light      = set("try keep make take happen work give start continue figure see same shot way thing things best going trying pushing doing out on up over whatever matter")
	stopObject = set(`but because cause since although though while which where when unless until weil aber obwohl wenn
		as`)
	trailing      = set("too now though also lately really then already so honestly and or but to")
	functionWords = set(`a an the my our your his her its their this that these those to of in on at for with from by about as into up out
		and or but so if be am is are was were been being do does did doing have has had having can could will would should may might must go
		going get getting make there here much more most many some any all such what how ich wir ein eine der die das zu im in und`)
	empty       = set("it that this them him her you me us one something anything things stuff")
	polite      = set("you your him them it that this those these her there what how")
	importance  = set("important essential everything sacred vital crucial central precious")
	frightening = set("scares scare terrifies terrify frightens frighten worries")
)

// Prospects finds what the writer of a text plans, wishes, fears and values, and signs of what
// became of it. Quotations, questions, negated, conditional and past wishes are none, and neither
// are those of others. at is the time of the text, for its dates.
func Prospects(text string, at time.Time) (found []Prospect, outcomes []Outcome) {
	for _, s := range Parse(text) {
		t := s.Tokens
		dates := Dates(s, at)
		add := func(kind ProspectKind, cue, object Span, obligation bool) {
			p := Prospect{Kind: kind, Span: Span{min(cue.Start, object.Start), max(cue.End, object.End)}, Object: text[object.Start:object.End], Obligation: obligation}
			for i, d := range dates {
				if d.Start >= cue.Start {
					p.Due = &dates[i]
					break
				}
			}
			found = append(found, p)
		}
		speaker := false // the last subject was the writer
		for i := 0; i < len(t); i++ {
			w := t[i].Lower
			subject := firstPerson[w]
			from := i + 1
			switch {
			case t[i].Quoted:
				continue
			case subject:
				speaker = true
			case otherPersons[w]:
				speaker = false
			}
			if w == "my" || w == "our" || w == "mein" || w == "meine" {
				if kind, cue, object, ok := byNoun(t, i); ok && !s.Question && !t[i].Negated {
					add(kind, cue, object, false)
					i = lastToken(t, object.End)
				}
				continue
			}
			if kind, cue, object, ok := byPredicate(t, i); ok && !s.Question && !t[i].Negated {
				add(kind, cue, object, false)
				continue
			}
			elided := false
			if !subject {
				// "Hoping to …", and "I moved and plan to …"
				if begins := i == leading(t); begins && !s.Question {
					elided, from = true, i
				} else if i > 0 && (t[i-1].Lower == "and" || t[i-1].Lower == "but") && speaker {
					elided, from = true, i
				} else {
					continue
				}
			}
			if s.Question || t[i].Negated || hypothetical(t, i) || i > 0 && (t[0].Lower == "if" || t[0].Lower == "wenn") {
				if !(subject && w == "i" && i >= 2 && t[i-1].Lower == "if" && t[i-2].Lower == "what") {
					continue
				}
				if end := objectEnd(t, from); end > from {
					add(Fear, Span{t[i-2].Start, t[i].End}, Span{t[from].Start, t[end-1].End}, false)
				}
				continue
			}
			p, end := match(t, from, elided)
			if p == nil {
				continue
			}
			if w == "we" && (p.words[0][0] == "should" || p.words[0][0] == "ought") { // advice: we should meet
				continue
			}
			for end < len(t) && !t[end].Break && manner(t[end].Lower) {
				end++
			}
			stop := objectEnd(t, end)
			if p.vague && stop > end && !endings[t[end].Lower] || p.outcome != "" && stop == end && !p.vague {
				continue // made it with milk
			}
			if p.outcome == Dropped && (lower(t, end) == "off" || lower(t, end) == "by") { // dropped off a parcel
				continue
			}
			cue := Span{t[i].Start, t[end-1].End}
			object := Span{cue.End, cue.End}
			if stop > end {
				object = Span{t[end].Start, t[stop-1].End}
			}
			if p.outcome != "" {
				outcomes = append(outcomes, Outcome{Span{cue.Start, object.End}, p.outcome, text[object.Start:object.End]})
				continue
			}
			if kind := p.accept(t[end:stop], w, elided); kind != "" {
				add(kind, cue, object, p.obligation)
				i = stop - 1
			}
		}
	}
	return found, outcomes
}

// manner reports whether a word between a cue and its object only says how.
func manner(w string) bool {
	return adverbs[w] && (strings.HasSuffix(w, "ly") || w == "still" || w == "just" || w == "always" || w == "also")
}

// leading is the first token that is no interjection or adverb.
func leading(t []Token) int {
	for i := range t {
		if !interjections[t[i].Lower] && !adverbs[t[i].Lower] {
			return i
		}
	}
	return -1
}

func lastToken(t []Token, end int) int {
	i := 0
	for i+1 < len(t) && t[i+1].Start < end {
		i++
	}
	return i
}

// hypothetical reports whether the subject at i stands behind a condition, in an inverted question
// or in what somebody else says or thinks.
func hypothetical(t []Token, i int) bool {
	if i == 0 || t[i].Break {
		return false
	}
	if conditions[t[i-1].Lower] {
		return true
	}
	j := i - 1
	for j > 0 && linking[t[j].Lower] {
		j--
	}
	return j > 0 && reports[t[j].Lower] && !firstPerson[t[j-1].Lower] && !adverbs[t[j-1].Lower]
}

// match finds the first pattern that fits at from, and the end of its cue. Without a subject the
// form of "to be" may be missing too.
func match(t []Token, from int, elided bool) (*pattern, int) {
	for k := range afterSubject {
		p := &afterSubject[k]
		words := p.words
		if elided && (words[0][0] == "am" && p.outcome == "" || words[0][0] == "have" && words[1][0] == "been") {
			words = words[1:]
			if words[0][0] == "going" && !strings.EqualFold(t[from].Text, "gonna") { // only "gonna" can stand alone
				words = p.words
			}
		} else if elided && p.outcome == "" && (len(words) < 2 && !p.obligation || p.kind != Goal && p.kind != Aspiration) {
			continue // "Believe in yourself": an imperative
		}
		if end := fits(t, from, words); end > 0 && (!p.verb || end < len(t) && !notVerbs[t[end].Lower] && !t[end].Break) {
			return p, end
		}
	}
	return nil, 0
}

// fits gives the end of words in t from i on, passing over adverbs but not over negations, or 0.
func fits(t []Token, i int, words [][]string) int {
	for k, alternatives := range words {
		for i < len(t) && !slices.Contains(alternatives, t[i].Lower) {
			if !adverbs[t[i].Lower] || t[i].Break && k > 0 {
				return 0
			}
			i++
		}
		if i == len(t) || t[i].Break && k > 0 {
			return 0
		}
		i++
	}
	return i
}

// accept judges the object of a prospect, and gives its kind or "".
func (p *pattern) accept(object []Token, subject string, elided bool) ProspectKind {
	if len(object) == 0 {
		return ""
	}
	first := object[0].Lower
	last := p.words[len(p.words)-1]
	if p.kind == PossibleSelf && slices.Contains(last, "become") && states[first] {
		if first == "able" {
			return Aspiration
		}
		return ""
	}
	if p.kind == PossibleSelf && slices.Contains(last, "be") && !selves[first] {
		if p.words[0][0] == "am" {
			return "" // going to be late
		}
		return Aspiration
	}
	if p.kind == PossibleSelf && elided && p.words[0][0] == "am" {
		return "" // gonna be a great night
	}
	switch {
	case p.words[0][0] == "must" && guesses[first], clauseWords[first]:
		return ""
	case p.considers() && !strings.HasSuffix(first, "ing") && !selves[first]:
		return "" // thinking about Max
	case p.polite && (smallTalk[first] || farewells[first] && len(object) < 4):
		return ""
	case p.polite && p.words[0][0] == "would" && invited[first], p.polite && len(object) == 2 && empty[object[1].Lower], empty[first]:
		return ""
	case p.kind == Value && polite[first]:
		return ""
	case p.kind == Fear && subject == "i" && slices.Contains(last, "i") && len(object) > 1 && (object[1].Lower == "not" || first == "can" || first == "will"):
		return "" // I am afraid I can't come
	}
	for _, t := range object {
		if isContent(t.Lower) && !(light[t.Lower] && (p.kind == Goal || p.kind == Aspiration)) {
			return p.kind
		}
	}
	return ""
}

// considers reports whether the cue speaks of a thought, which plans something only where an action
// or a thing follows.
func (p *pattern) considers() bool {
	return slices.ContainsFunc(p.words, func(w []string) bool { return w[0] == "thinking" || w[0] == "considering" })
}

// isContent reports whether a word can be what a prospect is about.
func isContent(w string) bool {
	return !functionWords[w] && !adverbs[w] && !empty[w] && !negations[w] && !firstPerson[w] && !otherPersons[w]
}

const objectWords = 14 // an object that is longer is cut

// objectEnd finds the end of the phrase that begins at from.
func objectEnd(t []Token, from int) int {
	end := from
	for ; end < len(t) && end-from < objectWords; end++ {
		w := t[end].Lower
		if t[end].Quoted || t[end].Break {
			break
		}
		if stopObject[w] && !(w == "as" && end <= from+1) {
			break
		}
		if end > from && (w == "and" || w == "so" || w == "or" || w == "und") && (end+1 == len(t) || firstPerson[lower(t, end+1)] || otherPersons[lower(t, end+1)]) {
			break
		}
	}
	for end > from && trailing[t[end-1].Lower] {
		end--
	}
	return end
}

// byNoun reads "my goal for this year is to …".
func byNoun(t []Token, i int) (kind ProspectKind, cue, object Span, ok bool) {
	j := i + 1
	for j < len(t) && j < i+4 {
		noun := strings.TrimSuffix(strings.ReplaceAll(t[j].Lower, "’", "'"), "'s")
		k := slices.IndexFunc(afterMy, func(p pattern) bool { return slices.Contains(p.words[0], noun) })
		if k < 0 || t[j].Break {
			j++
			continue
		}
		is := j
		if noun == t[j].Lower {
			for is = j + 1; is < len(t) && is < j+6 && !slices.Contains([]string{"is", "are", "remains", "ist"}, t[is].Lower); is++ {
				if t[is].Break {
					return
				}
			}
		}
		if is >= len(t) || is >= j+6 {
			return
		}
		from := is + 1
		for from < len(t) && (adverbs[t[from].Lower] || t[from].Lower == "to" || t[from].Lower == "that") {
			from++
		}
		end := objectEnd(t, from)
		if end <= from || negations[t[from].Lower] || slices.Contains([]string{"going", "coming", "working", "what", "done", "over", "set", "comin", "true", "still"}, t[from].Lower) {
			return
		}
		return afterMy[k].kind, Span{t[i].Start, t[is].End}, Span{t[from].Start, t[end-1].End}, true
	}
	return
}

// byPredicate reads "family is important to me" and "the thought of failing scares me", whose
// object stands before the verb at i.
func byPredicate(t []Token, i int) (kind ProspectKind, cue, object Span, ok bool) {
	w, end := t[i].Lower, 0
	switch {
	case frightening[w] && (lower(t, i+1) == "me" || lower(t, i+1) == "us"):
		kind, end = Fear, i+2
	case w == "is" || w == "are" || w == "means" || w == "mean" || w == "matters" || w == "matter":
		j, key := i+1, strings.HasPrefix(w, "matter")
		for j < len(t) && j < i+6 && !t[j].Break && (adverbs[t[j].Lower] || importance[t[j].Lower] || slices.Contains([]string{"most", "more", "the", "world", "lot", "incredibly", "extremely", "so", "thing"}, t[j].Lower)) {
			key = key || importance[t[j].Lower] || t[j].Lower == "world" || t[j].Lower == "lot" && strings.HasPrefix(w, "mean")
			j++
		}
		if !key || lower(t, j) != "to" && lower(t, j) != "for" || lower(t, j+1) != "me" && lower(t, j+1) != "us" {
			return
		}
		kind, end = Value, j+2
	default:
		return
	}
	from := i
	for from > 0 && i-from < 8 && !t[from].Break && (!clauseWords[t[from-1].Lower] || t[from-1].Lower == "and") && !t[from-1].Quoted {
		from--
		if t[from].Lower == "that" || t[from].Lower == "think" {
			from++
			break
		}
	}
	for from < i && (interjections[t[from].Lower] || adverbs[t[from].Lower] && t[from].Lower != "a") {
		from++
	}
	content := false
	for _, x := range t[from:i] {
		if polite[x.Lower] && x.Lower != "it" || firstPerson[x.Lower] && kind == Value {
			return
		}
		content = content || isContent(x.Lower)
	}
	if content {
		return kind, Span{t[i].Start, t[end-1].End}, Span{t[from].Start, t[i-1].End}, true
	}
	if next := objectEnd(t, end); kind == Value && next > end+1 && lower(t, end) == "to" || kind == Value && next > end+1 && lower(t, end) == "that" {
		return kind, Span{t[from].Start, t[end].End}, Span{t[end+1].Start, t[next-1].End}, true
	}
	return
}
