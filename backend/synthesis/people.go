package synthesis

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// person is somebody whom texts are about or written by.
type person struct {
	key      string // lower case
	name     string
	relation string         // such as sister; "" when the texts do not say
	mentions []int          // texts that name them, in order
	lines    map[int][]line // sentences about them, by text
}

// line is a sentence about a person.
type line struct {
	text string
	said bool // to them, in a conversation of two
}

// kin are words for people that need no name, and the form that is shown.
var kin = map[string]string{
	"mom": "mother", "mum": "mother", "mother": "mother", "mama": "mother", "dad": "father", "father": "father", "papa": "father", "parents": "parents",
	"sister": "sister", "brother": "brother", "sisters": "sisters", "brothers": "brothers", "siblings": "siblings", "son": "son", "daughter": "daughter", "kids": "children", "children": "children", "kid": "child", "child": "child",
	"wife": "wife", "husband": "husband", "partner": "partner", "girlfriend": "girlfriend", "boyfriend": "boyfriend", "fiance": "partner", "fiancee": "partner", "fiancé": "partner", "fiancée": "partner", "stepfather": "stepfather", "stepdad": "stepfather", "stepmother": "stepmother", "stepmom": "stepmother", "stepbrother": "stepbrother", "stepsister": "stepsister", "ex": "former partner",
	"grandma": "grandmother", "grandmother": "grandmother", "granny": "grandmother", "grandpa": "grandfather", "grandfather": "grandfather", "grandparents": "grandparents",
	"aunt": "aunt", "uncle": "uncle", "cousin": "cousin", "niece": "niece", "nephew": "nephew", "boss": "manager", "manager": "manager", "colleague": "colleague", "coworker": "colleague", "colleagues": "colleagues",
	"roommate": "roommate", "neighbor": "neighbor", "neighbour": "neighbor", "therapist": "therapist", "mentor": "mentor", "coach": "coach", "teacher": "teacher", "friend": "friend", "friends": "friends",
	"mutter": "mother", "vater": "father", "eltern": "parents", "schwester": "sister", "bruder": "brother", "sohn": "son", "tochter": "daughter", "frau": "wife", "mann": "husband", "freundin": "girlfriend", "freund": "friend", "chef": "manager", "chefin": "manager", "mutti": "mother", "vati": "father", "oma": "grandmother", "opa": "grandfather", "kollege": "colleague", "kollegin": "colleague", "kinder": "children",
}

// broad relations are a person only together with a name.
var broad = map[string]bool{"friend": true, "friends": true, "teacher": true, "coach": true, "neighbor": true, "child": true, "colleagues": true}

var (
	kinship = regexp.MustCompile(`(?i)\b(?:my|our|mein|meine|meiner|meinem|meinen|unsere?) (?:(?:best|older|younger|little|big|dear|old|new|late|good|close|twin|twin|favorite|ältere|jüngere|kleine|große|beste|bester) )?([a-zäöüßé]+)(?:,? ([A-Z][a-zäöüéè]{2,}))?\b`)
	// Parents are called without a name too: Mom called.
	bareKin = regexp.MustCompile(`(?:^|[^\p{L}'’]|[.!?,;:] )(Mom|Mum|Mama|Mutti|Dad|Papa|Vati|Grandma|Grandpa|Granny|Oma|Opa)(?:'s)?(?:[^\p{L}-]|$)`)
	// Who is meant by these is whom the sentence before names.
	byPronoun = regexp.MustCompile(`(?i)^(?:(?:and|but|so|then|yes|no|yeah|well|oh|also|sadly|luckily|er|sie),? )*(?:he|she|er)\b`)
	word      = regexp.MustCompile(`[\p{L}][\p{L}'-]*`)
	// A name after these belongs to a person, a name after those to a place.
	beforePerson = set("with told asked called met saw visited thanked thank thanks helped hey hi hello dear and miss missed love loved hug hugged invited texted emailed for named bro cc trust trusts trusted wrote heard argued fought quarreled married met dated kissed phoned rang miss call text see tell ask friend sister brother aunt uncle cousin dr mr mrs ms mit")
	beforePlace  = set("in at near to from around through across towards visit visiting toward via nach aus the on of a an this that")
	afterPerson  = set("said says told asked called thinks thought wants wanted was is has had did does got gave feels felt looks seems helped loves loved likes came went made knows knew and will would could can called wrote texted brought sent tried started moved visited invited offered promised showed picked drove lied yelled shouted forgot apologized apologised hugged cried laughed listened comforted encouraged ignored slammed accused criticized keeps always never just still also agreed disagreed left sat lives works plays teaches studies got married broke sang cooked baked joined stayed believes hopes needs says calls writes takes gives likes hates remembered suggested explained admitted sagt sagte hat ist")
	notNames     = set(`i i'm i'll i've i'd monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september october november december
		christmas easter halloween thanksgiving english german french spanish american british internet google facebook instagram youtube twitter netflix amazon apple android iphone windows linux python java
		god lord earth covid ok okay tv usa uk eu ai mom mum dad grandma grandpa wow yeah hey thanks hi yes no oh well so and but the my we you he she they it`)
)

// people finds the persons of the texts, once. A name counts when it stands at least twice,
// is hardly ever written in lower case, and more often stands where a person is named than where a
// place is.
func (a *analysis) people() []person {
	if a.persons != nil {
		return a.persons
	}
	a.persons = []person{}
	type clues struct{ middle, person, place, lower, all int }
	names := map[string]*clues{}
	at := func(w string) *clues {
		if names[w] == nil {
			names[w] = &clues{}
		}
		return names[w]
	}
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
		for j, s := range split[i] {
			words := word.FindAllString(s.text, -1)
			for k, w := range words {
				pronounNext := j+1 < len(split[i]) && byPronoun.MatchString(split[i][j+1].text)
				w = strings.TrimSuffix(w, "'s")
				r, _ := utf8.DecodeRuneInString(w)
				switch {
				case utf8.RuneCountInString(w) < 3 || w == strings.ToUpper(w):
				case unicode.IsLower(r):
					at(title(w)).lower++
				case k == 0:
					if c := at(w); len(words) > 1 && afterPerson[strings.ToLower(words[1])] {
						c.person++
						c.all++
					} else {
						c.all++
					}
				default:
					c := at(w)
					c.middle++
					c.all++
					before := strings.ToLower(words[k-1])
					switch {
					case capital(words[k-1]) && k > 1 && !notNames[before], k+1 < len(words) && capital(words[k+1]) && !notNames[strings.ToLower(words[k+1])]:
						// part of a longer name: of a book or a company as often as of a person
					case beforePerson[before], k+1 < len(words) && afterPerson[strings.ToLower(words[k+1])]:
						c.person++
					case !beforePlace[before] && pronounNext:
						c.person++
					case beforePlace[before]:
						c.place++
					case strings.Contains(s.text, ", "+w+"!"), strings.Contains(s.text, ", "+w+"."), strings.Contains(s.text, ", "+w+","):
						c.person++ // spoken to
					}
				}
			}
		}
	}
	// Speakers are persons; a short form of one is the same person.
	alias := map[string]string{}
	for s := range speakers {
		alias[strings.ToLower(s)] = s
		if first, _, ok := strings.Cut(s, " "); ok {
			alias[strings.ToLower(first)] = s
		}
	}
	var found []string
	for w, c := range names {
		if alias[strings.ToLower(w)] == "" && !notNames[strings.ToLower(w)] && !filler[strings.ToLower(w)] && c.all >= 2 && c.person > c.place && 5*c.lower < c.all && (c.middle >= 1 || c.person >= 2) && 4*c.person >= c.all {
			found = append(found, w)
		}
	}
	slices.SortFunc(found, func(x, y string) int { // longer ones first, so that Mel is found to be short for Melanie
		if len(x) != len(y) {
			return len(y) - len(x)
		}
		return strings.Compare(x, y)
	})
	for _, w := range found {
		key, full := strings.ToLower(w), ""
		for _, k := range sortedKeys(alias) {
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
	a.nameOf = alias
	by := map[string]*person{}
	get := func(key, name string) *person {
		if by[key] == nil {
			by[key] = &person{key: key, name: name, lines: map[int][]line{}}
		}
		return by[key]
	}
	last := map[string][]*person{} // whom the sentence before names, by conversation
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
		mention := func(p *person, s string, said bool) {
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
			for _, w := range word.FindAllString(s.text, -1) {
				r, _ := utf8.DecodeRuneInString(w)
				if full := alias[strings.ToLower(strings.TrimSuffix(w, "'s"))]; full != "" && full != t.Speaker && unicode.IsUpper(r) {
					mention(get(strings.ToLower(full), full), s.text, false)
				}
			}
			for _, m := range kinship.FindAllStringSubmatch(s.text, -1) {
				relation := kin[strings.ToLower(m[1])]
				if relation == "" {
					continue
				}
				if full := alias[strings.ToLower(m[2])]; m[2] != "" && full != "" {
					if p := get(strings.ToLower(full), full); p.relation == "" {
						p.relation = relation
					}
					continue
				}
				if !broad[relation] {
					owner := "your "
					if t.Speaker != "" {
						owner = t.Speaker + "'s "
					}
					mention(get(strings.ToLower(owner+relation), owner+relation), s.text, false)
				}
			}
			for _, m := range bareKin.FindAllStringSubmatch(s.text, -1) {
				owner := "your "
				if t.Speaker != "" {
					owner = t.Speaker + "'s "
				}
				relation := kin[strings.ToLower(m[1])]
				mention(get(strings.ToLower(owner+relation), owner+relation), s.text, false)
			}
			if before := last[t.Parent]; len(named) == 0 && len(before) == 1 && byPronoun.MatchString(s.text) {
				before[0].lines[i] = append(before[0].lines[i], line{s.text, false})
			} else if len(named) > 0 {
				last[t.Parent] = named
			}
			if other != "" && !s.question && toYou.MatchString(s.text) {
				p := get(strings.ToLower(other), other)
				if l := p.lines[i]; len(l) == 0 || l[len(l)-1].text != s.text {
					p.lines[i] = append(l, line{s.text, true})
				}
			}
		}
	}
	for _, key := range sortedKeys(by) {
		a.persons = append(a.persons, *by[key])
	}
	return a.persons
}

func capital(w string) bool {
	r, _ := utf8.DecodeRuneInString(w)
	return unicode.IsUpper(r)
}

var toYou = regexp.MustCompile(`(?i)\b(you|your|yours|you're|you've)\b`)

func title(w string) string {
	r, n := utf8.DecodeRuneInString(w)
	return string(unicode.ToUpper(r)) + w[n:]
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// subjects are the people and topics of the texts.
func (a *analysis) subjects() (out []subject) {
	for _, p := range a.people() {
		out = append(out, subject{"person " + p.key, p.name, p.mentions})
	}
	for _, g := range a.topics() {
		out = append(out, subject{"topic " + g.key, g.name, g.members})
	}
	return out
}
