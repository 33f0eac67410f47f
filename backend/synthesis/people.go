package synthesis

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"helix/backend/lazyregexp"
)

// person is somebody whom texts mention or who wrote them.
type person struct {
	key      string // in lower case
	name     string
	relation string          // such as sister; "" if unknown
	mentions []int           // texts that mention them, in order
	lines    map[int][]line  // sentences about them, by text
	called   map[string]bool // names used in texts
}

// line is a sentence about a person.
type line struct {
	text string
	said bool // addressed to them, in a conversation of two
}

// kin maps words for people without a name to the displayed form.
var kin = map[string]string{
	"mom": "mother", "mum": "mother", "mother": "mother", "mama": "mother", "dad": "father", "father": "father", "papa": "father", "parents": "parents",
	"sister": "sister", "brother": "brother", "sisters": "sisters", "brothers": "brothers", "siblings": "siblings", "son": "son", "daughter": "daughter", "kids": "children", "children": "children", "kid": "child", "child": "child",
	"wife": "wife", "husband": "husband", "partner": "partner", "spouse": "partner", "hubby": "husband", "girlfriend": "girlfriend", "boyfriend": "boyfriend", "fiance": "partner", "fiancee": "partner", "fiancé": "partner", "fiancée": "partner", "ex": "former partner",
	"mommy": "mother", "daddy": "father", "stepmother": "stepmother", "stepmom": "stepmother", "stepfather": "stepfather", "stepdad": "stepfather", "stepsister": "stepsister", "stepbrother": "stepbrother", "twin": "twin",
	"mother-in-law": "mother-in-law", "father-in-law": "father-in-law", "sister-in-law": "sister-in-law", "brother-in-law": "brother-in-law", "son-in-law": "son-in-law", "daughter-in-law": "daughter-in-law", "godmother": "godmother", "godfather": "godfather",
	"nana": "grandmother", "granddad": "grandfather", "grandson": "grandson", "granddaughter": "granddaughter", "grandma": "grandmother", "grandmother": "grandmother", "granny": "grandmother", "grandpa": "grandfather", "grandfather": "grandfather", "grandparents": "grandparents",
	"aunt": "aunt", "auntie": "aunt", "uncle": "uncle", "cousin": "cousin", "niece": "niece", "nephew": "nephew", "boss": "manager", "manager": "manager", "colleague": "colleague", "coworker": "colleague", "colleagues": "colleagues",
	"roommate": "roommate", "flatmate": "roommate", "classmate": "classmate", "landlord": "landlord", "landlady": "landlady", "neighbor": "neighbor", "neighbour": "neighbor", "therapist": "therapist", "mentor": "mentor", "coach": "coach", "teacher": "teacher", "friend": "friend", "friends": "friends",
	"mutter": "mother", "vater": "father", "eltern": "parents", "schwester": "sister", "bruder": "brother", "sohn": "son", "tochter": "daughter", "frau": "wife", "mann": "husband", "freundin": "girlfriend", "freund": "friend", "chef": "manager", "chefin": "manager", "oma": "grandmother", "opa": "grandfather", "kollege": "colleague", "kollegin": "colleague", "kinder": "children",
}

// broad relations identify a person only together with a name.
var broad = map[string]bool{"friend": true, "friends": true, "teacher": true, "coach": true, "neighbor": true, "child": true, "colleagues": true, "landlord": true, "landlady": true, "classmate": true}

// calling lists the kinship words that can be used as a name, such as in "Mom called".
var calling = set("mom mum mama mommy dad daddy papa grandma granny nana grandpa granddad")

var (
	kinship = lazyregexp.New(`(?i)\b(my|our|your|mein|meine|meiner|meinem|meinen|unsere?) (?:(?:best|older|younger|elder|oldest|youngest|little|big|dear|old|new|late|good|close|twin|favorite|ältere|jüngere|kleine|große|beste|bester) )?([\p{L}-]+)(?:,? ([\p{L}]{3,}))?`)
	word    = lazyregexp.New(`[\p{L}][\p{L}'-]*`)
	// A name after these words is a person's.
	onlyPerson = set(`told asked met thanked thank thanks hey hi hello dear hug hugged invited texted emailed named bro friend sister brother aunt uncle cousin
		ask tell meet invite forgive forgave married sorry congrats bye lieber liebe danke`)
	// After these words a name is more often a person's than a thing's; after those in
	// beforePlace, a place's.
	beforePerson = set(`with called saw visited helped and miss missed love loved for cc mit call see know knew help like liked give gave trust`)
	// After a title the next word is always a name.
	titles = set("mr mrs ms dr prof professor aunt uncle auntie coach frau herr tante onkel")
	// After these verbs "to" is followed by a person.
	naming      = set("name named call called")
	spokenTo    = set("talk talked talking speak spoke spoken speaking listen listened write wrote written say said lie lied apologize apologized close next married engaged explained")
	beforePlace = set("in at near to from around through across towards visit visiting toward via nach aus the on of a an this that")
	afterPerson = set("was is has had and will would could can never always still just hat ist")
	// onlyActs are actions of people only; acts can also be actions of companies, teams and places.
	onlyActs = set(`said says told asked tells asks thinks thought feels felt hates promised agrees argues apologizes cried cries laughs laughed smiles smiled died married met sang blames hugged texted wrote sagt sagte`)
	acts     = set(`called calls wants wanted did does got gets gave gives looks seems loves likes came comes went goes made makes knows knew took takes brought teaches taught lives works plays writes left kommt kam`)
	article  = set("the a an")
	notNames = set(`i i'm i'll i've i'd monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september october november december
		christmas easter halloween thanksgiving english german french spanish american british internet google facebook instagram youtube twitter netflix amazon apple android iphone windows linux python java
		god lord earth covid ok okay tv usa uk eu ai mom mum dad grandma grandpa wow yeah hey thanks hi yes no oh well so and but the my we you he she they it`)
)

// people finds the people in the texts, once. A name is a person's if it is introduced ("my friend Tom").
// Otherwise it must occur at least twice in the middle of a sentence or before an action of people, hardly
// ever in lower case, and more often in positions typical of people than of places or things. A name that
// also occurs like a thing's, as in "in Rome" or "the Nikon", must also occur in a position possible only
// for people, because cities and brands follow "with" and precede "was" too.
func (a *analysis) people() []person {
	if a.persons != nil {
		return a.persons
	}
	a.persons = []person{}
	type clues struct{ middle, person, only, place, acts, lower, all int }
	names := map[string]*clues{}
	at := func(w string) *clues {
		if names[w] == nil {
			names[w] = &clues{}
		}
		return names[w]
	}
	introduced := map[string]bool{} // such as my friend Tom, Mr. Miller
	split := make([][]sentence, len(a.in.Texts))
	speakers := map[string]bool{}
	talks := map[string]map[string]bool{} // speakers of each conversation
	for i, t := range a.in.Texts {
		split[i] = sentences(t.Body)
		if t.Speaker != "" {
			speakers[t.Speaker] = true
		}
		if t.Parent != "" {
			if talks[t.Parent] == nil {
				talks[t.Parent] = map[string]bool{}
			}
			talks[t.Parent][t.Speaker] = true
		}
		for n, s := range split[i] {
			for _, m := range kinOf(s.text) {
				if kin[strings.ToLower(m[2])] != "" && properName(m[3]) {
					introduced[m[3]] = true
				}
			}
			words := word().FindAllString(s.text, -1)
			for k, full := range words {
				w := strings.TrimSuffix(full, "'s")
				r, _ := utf8.DecodeRuneInString(w)
				switch {
				case utf8.RuneCountInString(w) < 3 || w == strings.ToUpper(w):
				case unicode.IsLower(r):
					at(title(w)).lower++
				default:
					c := at(w)
					c.all++
					before, after := "", ""
					if k > 0 {
						before = strings.ToLower(words[k-1])
						c.middle++
					}
					if k+1 < len(words) {
						after = words[k+1]
					}
					does := acts[after] || after == "and" && k+2 < len(words) && words[k+2] == "I" || before == "and" && k > 1 && words[k-2] == "I" ||
						full == w && len(after) > 4 && strings.HasSuffix(after, "ed") && !capital(after)
					switch {
					case titles[before] && properName(w):
						introduced[w] = true
					case article[before]:
						c.place++
					case k > 1 && capital(words[k-1]) && !notNames[before], k > 0 && after != "" && capital(after) && !notNames[strings.ToLower(after)]:
						// part of a longer name: of a book or a company as often as of a person
					case onlyActs[after]:
						c.person++
						c.only++
						c.acts++
					case does:
						c.person++
						c.acts++
					case onlyPerson[before], before == "to" && k > 1 && spokenTo[strings.ToLower(words[k-2])], (before == "her" || before == "him") && k > 1 && naming[strings.ToLower(words[k-2])]:
						c.person++
						c.only++
					case beforePerson[before], afterPerson[after], s.question && auxiliary[before]:
						c.person++
					case beforePlace[before]:
						c.place++
					case k > 0 && (strings.Contains(s.text, ", "+w+"!") || strings.Contains(s.text, ", "+w+".") || strings.Contains(s.text, ", "+w+",")):
						c.person++ // addressed
						if s.text[len(s.text)-1] != '.' || !strings.Contains(s.text, ", "+w+",") {
							c.only++ // part of a list
						}
					}
					if n+1 < len(split[i]) && byPronoun().MatchString(split[i][n+1].text) {
						c.only++
					}
				}
			}
		}
	}
	// Speakers are people. A short form of a speaker's name is the same person.
	alias := map[string]string{}
	for s := range speakers {
		alias[strings.ToLower(s)] = s
		if first, _, ok := strings.Cut(s, " "); ok {
			alias[strings.ToLower(first)] = s
		}
	}
	var found []string
	var long []string // names that occur once, which may be the long form of another
	for w, c := range names {
		switch {
		case alias[strings.ToLower(w)] != "" || !properName(w) || 5*c.lower >= c.all:
		case introduced[w] && c.place <= c.all/2,
			c.all >= 2 && c.person > c.place && 5*c.person >= c.all && (c.only > 0 || c.place == 0) && (c.middle >= 1 || c.acts >= 1 && c.lower == 0):
			found = append(found, w)
		case c.person > c.place && c.lower == 0:
			long = append(long, w)
		}
	}
	for _, w := range long {
		if slices.ContainsFunc(found, func(short string) bool {
			return len(short) >= 3 && len(w) >= len(short)+2 && strings.HasPrefix(w, short)
		}) {
			found = append(found, w)
		}
	}
	slices.SortFunc(found, func(x, y string) int { // longer ones first, so that Mel is recognized as short for Melanie
		if len(x) != len(y) {
			return len(y) - len(x)
		}
		return strings.Compare(x, y)
	})
	for _, w := range found {
		key, full := strings.ToLower(w), ""
		for _, k := range slices.Sorted(maps.Keys(alias)) {
			if strings.HasPrefix(k, key) && len(key) >= 3 {
				full = alias[k]
				break
			}
		}
		if full == "" {
			full = w
		}
		alias[key] = full
	}
	for _, key := range slices.Sorted(maps.Keys(alias)) {
		alias[key] = a.names.person(alias[key])
	}
	for key := range a.names { // a correction of the name itself takes precedence
		alias[key] = a.names.person(key)
	}
	maps.DeleteFunc(alias, func(_, person string) bool { return person == "" })
	a.nameOf = alias
	by := map[string]*person{}
	get := func(key, name string) *person {
		if by[key] == nil {
			by[key] = &person{key: key, name: name, lines: map[int][]line{}, called: map[string]bool{}}
		}
		return by[key]
	}
	last := map[string][]*person{} // people mentioned in the previous sentence, by conversation
	for i, t := range a.in.Texts {
		other := ""
		if who := talks[t.Parent]; len(who) == 2 {
			for s := range who {
				if s != t.Speaker {
					other = s
				}
			}
		}
		var named []*person
		if t.Parent == "" {
			clear(last)
		}
		mention := func(p *person, as, s string, said bool) {
			p.called[as] = true
			if !slices.Contains(named, p) {
				named = append(named, p)
			}
			if n := len(p.mentions); n == 0 || p.mentions[n-1] != i {
				p.mentions = append(p.mentions, i)
			}
			if l := p.lines[i]; len(l) == 0 || l[len(l)-1].text != s {
				p.lines[i] = append(l, line{s, said})
			}
		}
		for _, s := range split[i] {
			named = nil
			ofKin := func(writer, relation string) {
				owner := "your "
				if writer != "" {
					owner = writer + "'s "
				}
				if !broad[relation] {
					name := a.names.person(owner + relation)
					if name == "" {
						return
					}
					p := get(strings.ToLower(name), name)
					if name != owner+relation {
						p.relation = cmp.Or(p.relation, relation)
					}
					mention(p, owner+relation, s.text, false)
				}
			}
			for _, w := range word().FindAllString(s.text, -1) {
				r, _ := utf8.DecodeRuneInString(w)
				if full := alias[strings.ToLower(strings.TrimSuffix(w, "'s"))]; full != "" && full != t.Speaker && unicode.IsUpper(r) {
					mention(get(strings.ToLower(full), full), strings.TrimSuffix(w, "'s"), s.text, false)
				} else if w = strings.TrimSuffix(w, "'s"); unicode.IsUpper(r) && calling[strings.ToLower(w)] && !owned().MatchString(s.text) {
					ofKin(t.Speaker, kin[strings.ToLower(w)])
				}
			}
			for _, m := range kinOf(s.text) {
				relation, writer := kin[strings.ToLower(m[2])], t.Speaker
				if strings.EqualFold(m[1], "your") {
					if writer = other; writer == "" {
						continue
					}
				}
				if relation == "" {
					continue
				}
				if full := alias[strings.ToLower(m[3])]; properName(m[3]) && full != "" {
					// "My kids, John": John is addressed, not introduced.
					if p := get(strings.ToLower(full), full); p.relation == "" && full != other && relation != "children" && !strings.HasSuffix(relation, "s") {
						p.relation = relation
					}
					continue
				}
				ofKin(writer, relation)
			}
			if before := last[t.Parent]; len(named) > 0 {
				last[t.Parent] = named
			} else if len(before) == 1 && byPronoun().MatchString(s.text) {
				before[0].lines[i] = append(before[0].lines[i], line{s.text, false})
			}
			if other != "" && !s.question && toYou().MatchString(s.text) {
				p := get(strings.ToLower(other), other)
				if l := p.lines[i]; len(l) == 0 || l[len(l)-1].text != s.text {
					p.lines[i] = append(l, line{s.text, true})
				}
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(by)) {
		a.persons = append(a.persons, *by[key])
	}
	return a.persons
}

// kinOf finds "my sister" and "your brother Tom". Each result is the whole match followed by the
// owner, the word and the name.
func kinOf(text string) [][]string {
	lower := strings.ToLower(text)
	if !strings.Contains(lower, "my ") && !strings.Contains(lower, "our ") && !strings.Contains(lower, "mein") && !strings.Contains(lower, "unser") {
		return nil
	}
	return kinship().FindAllStringSubmatch(text, -1)
}

// auxiliary verbs precede the person in a question.
var auxiliary = set("is was does did has")

// owned matches capitalized kinship words that belong to somebody: "Anna's Mom", "the Dad".
var owned = lazyregexp.New(`(?:'s|\b(?i:my|our|your|his|her|their|the|a)) (?:Mom|Mum|Mama|Mommy|Dad|Daddy|Papa|Grandma|Granny|Nana|Grandpa|Granddad)\b`)

// properName reports whether a word looks like a name and is not known as something else.
func properName(w string) bool {
	lower := strings.ToLower(w)
	if _, end, ok := strings.Cut(w, "'"); ok && !capital(end) {
		return false // We've, Don't; not O'Brien
	}
	return w != "" && capital(w) && !notNames[lower] && !filler[lower] && kin[lower] == "" && !titles[lower]
}

func capital(w string) bool {
	r, _ := utf8.DecodeRuneInString(w)
	return unicode.IsUpper(r)
}

// byPronoun matches the beginning of a sentence about the people in the previous sentence.
var byPronoun = lazyregexp.New(`(?i)^(?:(?:and|but|so|then|yes|no|yeah|well|oh|also|sadly|luckily|er|sie),? )*(?:he|she|er)\b`)

var toYou = lazyregexp.New(`(?i)\b(you|your|yours|you're|you've)\b`)

func title(w string) string {
	r, n := utf8.DecodeRuneInString(w)
	return string(unicode.ToUpper(r)) + w[n:]
}

// subjects returns the people and topics of the texts.
func (a *analysis) subjects() (out []subject) {
	for _, p := range a.people() {
		out = append(out, subject{"person " + p.key, p.name, p.mentions})
	}
	for _, g := range a.topics() {
		out = append(out, subject{"topic " + g.key, g.name, g.members})
	}
	return out
}
