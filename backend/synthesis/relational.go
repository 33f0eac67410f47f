package synthesis

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"time"

	"helix/backend/lazyregexp"
)

const (
	leastMentions   = 5
	leastDays       = 3
	leastCues       = 3
	leastAttachment = 8
)

// Cues of what people do for and against each other. They match whole words; negated ones are ignored.
var (
	supportCue  = lazyregexp.New(`(?i)\b(support(?:s|ed|ing|ive)?|helped|helps me|help me|there for (?:me|us|you|him|her|them|each other)|encourag(?:e|es|ed|ing|ement)|comfort(?:s|ed|ing)|stood by|stands by|listen(?:s|ed) to (?:me|us)|proud of (?:you|me|him|her|them)|cheer(?:s|ed) (?:me|us|you) (?:up|on)|t(?:ake|akes|ook) care of|looked after|backed me|believe(?:s|d)? in (?:me|you)|unterstütz\w+|hat mir geholfen|für mich da|helping (?:me|us)|(?:have|has|had|got) (?:my|your|our|his|her|their) back|here for (?:you|me|us|him|her)|(?:on|by) (?:my|your|our|his|her) side|(?:lent|lend|lends) (?:me|us)|(?:thanks?|thankful|grateful) (?:you )?(?:for|so much for) (?:your|all your|the|all the) (?:support|help|encouragement|advice|kindness)|(?:stood|stands?) up for (?:me|us)|(?:defend|defends|defended|protected) (?:me|us)|calm(?:s|ed) me down|hugg?(?:s|ed) (?:me|us)|(?:gave|gives) me (?:a hug|advice|courage|strength)|you can (?:always |totally )?(?:stay|sleep|crash|live) (?:here|with|at)|if you (?:ever )?(?:need|want) to (?:talk|vent)|if you (?:ever )?need (?:me|anything|help))\b`)
	conflictCue = lazyregexp.New(`(?i)\b(argu(?:e|es|ed|ing|ment|ments)|(?:had|having|have) (?:a|an|another) (?:big |huge |terrible |stupid |bad |ugly )?(?:fight|row|argument|falling out)|(?:fought|fights?|fighting) (?:with|about|over)|quarrel\w*|yell(?:s|ed|ing)? at|shout(?:s|ed|ing)? at|(?:angry|mad|furious|annoyed|upset|frustrated) (?:at|with)|upset me|hurt me|hurts me|hurt my feelings|betray(?:s|ed|al)|lied to|broke up|ignor(?:es|ed|ing) me|fell out|let me down|blam(?:es|ed|ing) me|insult(?:s|ed)|critici[sz](?:es|ed)|jealous of|not talking|disagree(?:s|d|ment)?|scream(?:s|ed|ing)? at|snapp?(?:s|ed|ing)? at|cheat(?:s|ed|ing) on|accus(?:es|ed|ing) (?:me|us|him|her|them)|resent(?:s|ed|ful)?|hung up on|slamm(?:ed|ing)|storm(?:s|ed) (?:out|off)|silent treatment|(?:kick|throw|kicked|threw) (?:me|us|him|her|them) out|tension between|hold(?:s|ing)? (?:a )?grudges?|humiliat(?:es|ed) (?:me|us)|(?:haven't|hasn't|don't|stopped) (?:spoken|talked|speaking|talking) (?:to (?:me|us|him|her|each other)|since|in years|anymore)|behind my back|stritt\w*|gestritten|Streit)\b`)
	trustCue    = lazyregexp.New(`(?i)\b(trust(?:s|ed|ing)?|rel(?:y|ies|ied) on|confid(?:e|es|ed) in|count(?:s|ed)? on|honest with|keeps? (?:his|her|their) (?:word|promise|promises)|open up to|opened up to|vertrau\w*|verlass\w* auf)\b`)
	closeCue    = lazyregexp.New(`(?i)\b(miss(?:es|ed|ing)? (?:you|him|her|them|my)|(?:afraid|scared) (?:to lose|of losing)|can't (?:live|be) without|need (?:you|him|her) (?:here|with me|close)|close to (?:me|him|her|you)|clos(?:er|est)|pull(?:s|ed)? away|push(?:es|ed)? (?:me|him|her) away|need(?:s|ed)? space|reassur\w+|vermiss\w*)\b`)
)

// relational reports the people in the texts and how they and the writer interact.
func (a *analysis) relational() {
	out := &RelationalDynamics{KeyRelationships: []string{}, AttachmentPatterns: []string{}, TrustLevels: map[string]float64{}}
	a.out.RelationalDynamics = out
	people := slices.Clone(a.people())
	slices.SortStableFunc(people, func(x, y person) int { return len(y.mentions) - len(x.mentions) })
	for _, p := range people {
		days := a.days(p.mentions)
		if len(p.mentions) >= leastMentions && days >= leastDays {
			out.KeyRelationships = append(out.KeyRelationships, p.name)
			a.relationship(p, days)
		}
		support := a.cue(p, supportCue(), "support", "support or help", leastCues)
		conflict := a.cue(p, conflictCue(), "conflict", "arguments or hurt feelings", leastCues)
		a.cue(p, trustCue(), "trust", "trust", leastCues)
		if n := a.cue(p, closeCue(), "attachment", "closeness, distance or missing someone", leastAttachment); n >= leastAttachment {
			out.AttachmentPatterns = append(out.AttachmentPatterns, p.name)
		}
		if support+conflict >= leastCues {
			out.TrustLevels[p.name] = round(float64(support) / float64(support+conflict))
		}
	}
}

func (a *analysis) days(members []int) int {
	days := map[string]bool{}
	for _, m := range members {
		days[a.in.Texts[m].At.In(a.in.Zone).Format(time.DateOnly)] = true
	}
	return len(days)
}

// writers returns the author of texts: "You", a name, or "" if there are several.
func (a *analysis) writers(members []int) string {
	who := a.in.Texts[members[0]].Speaker
	for _, m := range members {
		if a.in.Texts[m].Speaker != who {
			return ""
		}
	}
	if who == "" {
		return "You"
	}
	return who
}

func (a *analysis) relationship(p person, days int) {
	n := float64(len(p.mentions))
	mood, _ := a.meanValence(p.mentions)
	var at, moods []float64
	for _, m := range p.mentions {
		if a.texts[m].known {
			at, moods = append(at, a.in.Texts[m].At.Sub(a.in.Texts[p.mentions[0]].At).Hours()/24), append(moods, a.texts[m].valence)
		}
	}
	slope, pv := trend(at, moods)
	direction := ""
	if pv <= growthP && slope != 0 && at[len(at)-1] > 0 {
		direction = "; mood rose over this time"
		if slope < 0 {
			direction = "; mood fell over this time"
		}
	}
	name := "*" + p.name + "*"
	if p.relation != "" {
		name += " (" + p.relation + ")"
	}
	first, last := a.in.Texts[p.mentions[0]].At, a.in.Texts[p.mentions[len(p.mentions)-1]].At
	text := fmt.Sprintf("%s was mentioned in %s on %d days %s%s%s", name, a.number(p.mentions), days, a.span(first, last), a.mood(p.mentions), direction)
	if who := a.writers(p.mentions); who != "" {
		text = fmt.Sprintf("%s mentioned %s in %s on %d days %s%s%s", who, name, a.number(p.mentions), days, a.span(first, last), a.mood(p.mentions), direction)
	}
	a.add(finding{
		typ: "relationship", subject: p.key, subjects: []string{p.name}, members: p.mentions, description: text,
		confidence: (1 - math.Exp(-n/3)) * (0.7 + 0.28*(1-math.Exp(-float64(days)/3))), parts: map[string]float64{"mentions": n, "days": float64(days), "mood": mood - a.usual, "trend": slope}, series: a.moods(p.mentions),
	})
}

// cue reports a behavior toward a person if enough texts contain its cue. It returns their number.
func (a *analysis) cue(p person, cue *regexp.Regexp, typ, word string, least int) int {
	var members []int
	for m := range p.lines {
		if slices.ContainsFunc(p.lines[m], func(l line) bool { return cued(cue, l.text) }) {
			members = append(members, m)
		}
	}
	if len(members) < least {
		return len(members)
	}
	slices.Sort(members)
	mood, _ := a.meanValence(members)
	when := a.span(a.in.Texts[members[0]].At, a.in.Texts[members[len(members)-1]].At)
	text := fmt.Sprintf("%s mention *%s* in connection with %s %s", a.number(members), p.name, word, when)
	if who := a.writers(members); who != "" {
		text = fmt.Sprintf("%s mentioned *%s* in connection with %s in %s %s", who, p.name, word, a.number(members), when)
	}
	n := float64(len(members))
	// The scale is verified by the calibration error on the synthetic benchmark, as for all detectors.
	a.add(finding{
		typ: typ, subject: p.key, subjects: []string{p.name}, members: members, description: text,
		confidence: 0.95 * (1 - math.Exp(-n/2.2)), parts: map[string]float64{"size": n, "mood": mood - a.usual}, series: a.moods(members),
	})
	return len(members)
}
