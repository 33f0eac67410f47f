package textmine

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Person is somebody whom texts speak of, or who speaks in them.
type Person struct {
	Name     string   // the fullest name, or a kinship such as "my sister" or "Anna's sister"
	Aliases  []string // other names, sorted
	Kinship  string   // what the person is to a speaker, such as "sister"; or ""
	Speaks   bool
	Mentions []Mention // in the order of the texts
}

// Mention is a place where a text names a person.
type Mention struct {
	Doc int // the index of the text
	Span
}

// Corrections are what the user has said about the people found. Names compare without case.
type Corrections struct {
	Aliases map[string]string // from another name of a person to the name to keep
	Ignore  []string          // names that are no persons
}

// kinships are the words that name a person by what they are to somebody.
var kinships = pairs(`mother mother mom mother mum mother mama mother mommy mother father father dad father papa father daddy father
sister sister brother brother son son daughter daughter wife wife husband husband hubby husband partner partner
boyfriend boyfriend girlfriend girlfriend fiancé fiancé fiance fiancé fiancée fiancée fiancee fiancée spouse spouse
grandmother grandmother grandma grandmother granny grandmother nana grandmother grandfather grandfather grandpa grandfather granddad grandfather
aunt aunt auntie aunt uncle uncle cousin cousin niece niece nephew nephew stepmother stepmother stepmom stepmother stepfather stepfather stepdad stepfather
stepsister stepsister stepbrother stepbrother twin twin sister-in-law sister-in-law brother-in-law brother-in-law
mother-in-law mother-in-law father-in-law father-in-law son-in-law son-in-law daughter-in-law daughter-in-law
godmother godmother godfather godfather ex ex roommate roommate flatmate roommate boss boss therapist therapist
mutter mother mama mother vater father papa father schwester sister bruder brother sohn son tochter daughter frau wife mann husband
oma grandmother opa grandfather tante aunt onkel uncle`)

// pets are whose names are no persons.
var pets = set("dog cat puppy pup kitten hamster guinea horse pony rabbit bunny parrot turtle tortoise hund katze kater")

// never is more than what can speak for a person.
const never = 1 << 20

// calling are the kinships that serve as names: "Mom called".
var calling = set("mom mum mama mommy dad daddy papa grandma granny nana grandpa granddad oma opa")

// roles stand between "my" and a name without making the bare words one person: my friend Tom.
var roles = set(`friend friends buddy pal bestie colleague coworker co-worker neighbor neighbour coach teacher mentor manager trainer landlord classmate
doctor dentist instructor tutor mate date kid baby freund freundin kollege kollegin nachbar nachbarin`)

// notNames are capitalized words that name no person.
var notNames = set(`i i'm god jesus christmas easter thanksgiving halloween hanukkah ramadan english german french spanish italian
chinese japanese korean russian portuguese arabic dutch polish turkish greek latin american british european asian african mexican indian
canadian australian irish scottish swiss america europe asia africa australia antarctica england scotland ireland wales britain uk usa us eu
germany france spain italy portugal greece turkey poland austria switzerland netherlands belgium sweden norway denmark finland iceland
russia ukraine china japan korea india thailand vietnam indonesia brazil argentina chile peru mexico canada egypt morocco kenya
london paris berlin madrid rome vienna munich hamburg cologne amsterdam brussels prague budapest warsaw dublin edinburgh lisbon barcelona
milan venice athens istanbul moscow kyiv tokyo kyoto osaka beijing shanghai seoul delhi mumbai bangkok singapore sydney melbourne
york chicago boston seattle denver austin dallas houston miami atlanta philadelphia phoenix portland detroit vegas angeles francisco diego
california texas florida nevada oregon arizona colorado alaska hawaii michigan ohio virginia carolina illinois pennsylvania toronto montreal vancouver
alps rockies facebook instagram twitter youtube google amazon netflix spotify apple microsoft whatsapp tiktok linkedin github python java
internet tv covid ok okay mr mrs ms dr prof st sir madam monday lol omg bbq asap pm am
congrats bye cheers yup nope ouch aww woah woohoo plus agreed thankfully hopefully unfortunately kudos bravo ciao helix uber ikea lego zoom excel linux windows android iphone mac marathon championship league cup street avenue park lake mount river university college`)

var (
	placeWords = set("in at near from across around via through visit visiting visited into inside outside to im aus nach")
	thingWords = set("the a an this that these every each some any my your our his her their no play playing played watch watched watching read reading speak learn learning on using called der die das ein eine")
	metWords   = set(`with told tell met meet call called love miss ask asked hey hi hello dear thanks thank bye for hug hugged saw see visit
		sorry congrats congratulations invited invite helped help married text texted know knows mit hallo danke named is was does did has`)
	actWords = set(`said says say told tells asked asks called calls came comes wants wanted thinks thought loves loved likes liked helped helps
		gave gives got gets went goes made makes knows knew looked looks needs needed felt feels moved lives works worked started invited brought showed turned agreed argued promised texted wrote writes left loves hates hated still did does took takes teaches taught plays bought cooked cried died passed won lost met laughed smiled hugged sagt sagte kommt kam`)
	stateWords = set("is was has had and can could will would still always never just also really did does who hat ist war")
	spokenTo   = set("talk speak listen close engage marry write lie say apologize next")
	titles     = set("mr mrs ms dr prof aunt uncle auntie grandma grandpa sister brother coach professor tante onkel frau herr")
)

// nicknames shorten names in ways that no rule finds.
var nicknames = pairs(`liz elizabeth beth elizabeth lizzie elizabeth bob robert bobby robert bill william billy william will william mike michael
mick michael jim james jimmy james tony anthony kate katherine katie katherine kathy katherine jack john johnny john dave david steve steven
peggy margaret maggie margaret meg margaret dick richard rick richard ted theodore ed edward harry harold chuck charles charlie charles
jenny jennifer jen jennifer andy andrew drew andrew hans johannes sepp josef nate nathaniel vicky victoria becky rebecca tina christina kim kimberly`)

// candidate is a capitalized word or two of them while the texts are read.
type candidate struct {
	mentions         []Mention
	inner            bool // seen other than at the beginning of a sentence
	person, thing    int  // contexts that speak for and against
	acts             int  // of those for, the ones in which the person does or has something
	introduced       bool // "my friend Tom"
	kinship, speaker string
}

type reader struct {
	names    map[string]*candidate
	kin      map[[2]string]*candidate // by speaker and kinship
	lower    map[string]int           // how often words stand in lower case
	inner    map[string]bool          // names that stand inside of a sentence
	speakers []string
}

// People finds the people of texts: their speakers, names and kin, one record a person. A name has
// to be capitalized inside of a sentence and be seen twice, or be introduced ("my friend Tom"), in
// contexts that speak for a person. Short forms are merged with the one name that they fit.
func People(docs []Doc, c Corrections) []Person {
	r := &reader{names: map[string]*candidate{}, kin: map[[2]string]*candidate{}, lower: map[string]int{}, inner: map[string]bool{}}
	for _, d := range docs {
		if d.Speaker != "" && !slices.Contains(r.speakers, d.Speaker) {
			r.speakers = append(r.speakers, d.Speaker)
		}
	}
	slices.Sort(r.speakers)
	parsed := make([][]Sentence, len(docs))
	for i, d := range docs {
		parsed[i] = Parse(d.Text)
		for _, s := range parsed[i] {
			for _, t := range s.Tokens {
				if t.Text == t.Lower {
					r.lower[t.Lower]++
				} else if t.Inner {
					r.inner[bare(t.Text)] = true
				}
			}
		}
	}
	for i, d := range docs {
		for _, s := range parsed[i] {
			r.sentence(i, d, s)
		}
	}
	return r.merge(c)
}

// sentence collects what a sentence says of people.
func (r *reader) sentence(doc int, d Doc, s Sentence) {
	t := s.Tokens
	for i := 0; i < len(t); i++ {
		if i > 0 && t[i].Start == t[i-1].Start {
			continue
		}
		if n := r.kinshipAt(doc, d, t, i); n > 0 {
			i += n - 1
			continue
		}
		name, n := r.nameAt(d.Text, t, i)
		if n == 0 || t[i].Quoted {
			continue
		}
		c := r.candidate(name)
		c.mentions = append(c.mentions, Mention{doc, Span{t[i].Start, t[i].Start + len(bare(d.Text[t[i].Start:t[i+n-1].End]))}})
		c.inner = c.inner || t[i].Inner
		r.context(c, t, i, n)
		i += n - 1
	}
}

func (r *reader) candidate(name string) *candidate {
	c := r.names[name]
	if c == nil {
		c = &candidate{}
		r.names[name] = c
	}
	return c
}

// kinshipAt reads "my sister", "my sister Anna", "your mom" or "Mom", and gives how many tokens it
// has.
func (r *reader) kinshipAt(doc int, d Doc, t []Token, i int) int {
	w, of, n := t[i].Lower, "", 0
	j := i + 1
	switch w {
	case "my", "our", "mein", "meine", "meinen", "meinem", "meiner", "unser", "unsere":
		of = d.Speaker
	case "your", "dein", "deine", "deinen", "deiner":
		if len(r.speakers) != 2 || d.Speaker == "" {
			return 0
		}
		of = r.speakers[0]
		if of == d.Speaker {
			of = r.speakers[1]
		}
	default:
		if !calling[bare(w)] || t[i].Text == w || i > 0 && (t[i-1].Lower == "the" || t[i-1].Lower == "a") {
			return 0
		}
		of, j = d.Speaker, i
	}
	for j < len(t) && j < i+3 && !t[j].Break && slices.Contains([]string{"older", "younger", "little", "big", "best", "dear", "late", "twin", "new", "old", "elder", "good", "close", "oldest", "youngest", "beloved"}, t[j].Lower) {
		j++
	}
	if j >= len(t) || j > i && t[j].Break {
		return 0
	}
	word := bare(t[j].Lower)
	kinship := kinships[word]
	if pets[word] && j+1 < len(t) {
		if name, m := r.nameAt(d.Text, t, j+1); m > 0 { // my dog Max
			r.candidate(name).thing += never
		}
		if i > 0 && t[i].Break {
			if name, m := r.nameAt(d.Text, t, i-1); m > 0 { // Max, my dog
				r.candidate(name).thing += never
			}
		}
	}
	if kinship == "" && !roles[word] {
		return 0
	}
	n = j - i + 1
	// A name in apposition: my sister Anna; my sister, Anna, said
	if k := j + 1; k < len(t) && word == t[j].Lower {
		name, m := r.nameAt(d.Text, t, k)
		apposition := m > 0 && (!t[k].Break || d.Text[t[j].End:t[k].Start] == ", " && k+m < len(t) && t[k+m].Break)
		if apposition && !slices.Contains(r.speakers, name) {
			c := r.candidate(name)
			c.mentions = append(c.mentions, Mention{doc, Span{t[k].Start, t[k].Start + len(bare(d.Text[t[k].Start:t[k+m-1].End]))}})
			c.introduced, c.inner = true, true
			if kinship != "" && c.kinship == "" {
				c.kinship, c.speaker = kinship, of
			}
			return n + m
		}
	}
	if kinship == "" {
		return 0
	}
	key := [2]string{of, kinship}
	c := r.kin[key]
	if c == nil {
		c = &candidate{kinship: kinship, speaker: of}
		r.kin[key] = c
	}
	c.mentions = append(c.mentions, Mention{doc, Span{t[i].Start, t[j].Start + len(bare(d.Text[t[j].Start:t[j].End]))}})
	return n
}

// bare is a word without its possessive ending.
func bare(w string) string {
	return strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(w, "'s"), "’s"), "'")
}

// nameAt reads a capitalized word, or two that may be first and last name. The first word of a
// sentence begins two only where it is also seen inside of one.
func (r *reader) nameAt(text string, t []Token, i int) (string, int) {
	if !isName(t[i]) {
		return "", 0
	}
	first := bare(t[i].Text)
	if i+1 < len(t) && first == t[i].Text && (t[i].Inner || r.inner[first]) && isName(t[i+1]) && t[i+1].Inner && text[t[i].End:t[i+1].Start] == " " && !titles[t[i].Lower] && !stopWords[t[i].Lower] {
		return first + " " + bare(t[i+1].Text), 2
	}
	return first, 1
}

// isName reports whether a word is capitalized like a name, and is not known for something else.
func isName(t Token) bool {
	base := bare(t.Text)
	w := strings.ToLower(base)
	r, size := utf8.DecodeRuneInString(base)
	if t.Lower != strings.ToLower(strings.ReplaceAll(t.Text, "’", "'")) { // a half of a contraction
		return false
	}
	if !unicode.IsUpper(r) || len(base) == size || strings.IndexFunc(base[size:], unicode.IsLower) < 0 || strings.IndexFunc(base, unicode.IsDigit) >= 0 {
		return false
	}
	return !notNames[w] && !stopWords[w] && weekdays[w] == 0 && weekdays[strings.TrimSuffix(w, "s")] == 0 && months[w] == 0 && kinships[w] == "" && !interjections[w] && !adverbs[w] && contractions[w] == nil
}

// context counts what stands around a name.
func (r *reader) context(c *candidate, t []Token, i, n int) {
	next := i + n
	after := lower(t, next)
	possessive := bare(t[next-1].Text) != t[next-1].Text
	vocative := (i == 0 || t[i].Break) && (next == len(t) || t[next].Break)
	addressed := next == len(t) || t[next].Break
	if i > 0 && !t[i].Break {
		switch prev := t[i-1].Lower; {
		case thingWords[prev]:
			c.thing += 2
		case placeWords[prev] && !(prev == "to" && i > 1 && metWords[Lemma(t[i-2].Lower)] || prev == "to" && i > 1 && spokenTo[Lemma(t[i-2].Lower)]):
			c.thing++
		case titles[prev]:
			c.introduced = true
		case metWords[prev] || placeWords[prev]:
			c.person++
		}
	}
	switch {
	case vocative || addressed && i > 0 && (t[i].Break || interjections[t[i-1].Lower] || slices.Contains([]string{"hey", "hi", "hello", "thanks", "congrats"}, t[i-1].Lower)):
		c.person++
	case !addressed && (actWords[after] || after != "need" && strings.HasSuffix(after, "ed")):
		c.person++
		c.acts++
	case !addressed && stateWords[after] && after != "and":
		c.person++
	case after == "and" && firstPerson[lower(t, next+1)] || i > 1 && t[i-1].Lower == "and" && firstPerson[t[i-2].Lower]:
		c.person++
		c.acts++
	case possessive && next < len(t):
		c.person++
		c.acts++
	}
}

// merge joins names and kinships that mean one person, and drops what is none.
func (r *reader) merge(c Corrections) []Person {
	ignored, renamed := map[string]bool{}, map[string]string{}
	for _, n := range c.Ignore {
		ignored[strings.ToLower(n)] = true
	}
	for from, to := range c.Aliases {
		renamed[strings.ToLower(from)] = to
	}
	for _, s := range r.speakers {
		r.candidate(s)
	}
	var kept []string
	for _, name := range slices.Sorted(maps.Keys(r.names)) {
		if r.isPerson(name, renamed) {
			kept = append(kept, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.names)) { // the long form of a person seen by a short one
		if x := r.names[name]; !slices.Contains(kept, name) && x.person > x.thing && slices.ContainsFunc(kept, func(k string) bool { return shortens(k, name) && !slices.Contains(r.speakers, k) }) {
			kept = append(kept, name)
		}
	}
	people := map[string]*Person{}
	person := func(name string) *Person {
		p := people[name]
		if p == nil {
			p = &Person{Name: name}
			people[name] = p
		}
		return p
	}
	for _, name := range kept {
		whole := name
		if to := renamed[strings.ToLower(name)]; to != "" {
			whole = to
		} else if !slices.Contains(r.speakers, name) {
			whole = fullest(name, kept, r.speakers)
			whole = cmp.Or(renamed[strings.ToLower(whole)], whole)
		}
		if ignored[strings.ToLower(name)] || ignored[strings.ToLower(whole)] {
			continue
		}
		p, x := person(whole), r.names[name]
		p.Mentions = append(p.Mentions, x.mentions...)
		p.Speaks = p.Speaks || slices.Contains(r.speakers, name)
		if x.kinship != "" && p.Kinship == "" {
			p.Kinship = x.kinship
		}
		if name != whole {
			p.Aliases = append(p.Aliases, name)
		}
		for key, k := range r.kin { // at most one fits
			if x.kinship != "" && key == [2]string{x.speaker, x.kinship} && r.onlyOne(x) {
				p.Mentions = append(p.Mentions, k.mentions...)
				p.Aliases = append(p.Aliases, kinName(k))
				k.mentions = nil
			}
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(r.kin), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		k := r.kin[key]
		name := kinName(k)
		whole := cmp.Or(renamed[strings.ToLower(name)], name)
		if len(k.mentions) == 0 || ignored[strings.ToLower(name)] || ignored[strings.ToLower(whole)] {
			continue
		}
		p := person(whole)
		p.Mentions = append(p.Mentions, k.mentions...)
		if p.Kinship == "" {
			p.Kinship = k.kinship
		}
		if name != whole {
			p.Aliases = append(p.Aliases, name)
		}
	}
	out := make([]Person, 0, len(people))
	for _, name := range slices.Sorted(maps.Keys(people)) {
		p := people[name]
		slices.Sort(p.Aliases)
		p.Aliases = slices.Compact(p.Aliases)
		slices.SortFunc(p.Mentions, func(a, b Mention) int {
			return cmp.Or(cmp.Compare(a.Doc, b.Doc), cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
		})
		out = append(out, *p)
	}
	return out
}

// onlyOne reports whether nobody else was introduced as the same kin of the same speaker.
func (r *reader) onlyOne(x *candidate) bool {
	for _, other := range r.names {
		if other != x && other.kinship == x.kinship && other.speaker == x.speaker {
			return false
		}
	}
	return true
}

func kinName(k *candidate) string {
	if k.speaker == "" {
		return "my " + k.kinship
	}
	return k.speaker + "'s " + k.kinship
}

// isPerson judges a name by how often, where and beside which words it stands.
func (r *reader) isPerson(name string, renamed map[string]string) bool {
	x := r.names[name]
	if slices.Contains(r.speakers, name) || renamed[strings.ToLower(name)] != "" {
		return true
	}
	for _, s := range r.speakers {
		if shortens(name, s) && x.person > 0 {
			return true
		}
	}
	if x.introduced {
		return x.thing <= len(x.mentions)
	}
	if first, _, two := strings.Cut(name, " "); two && r.names[first] != nil && x.thing == 0 && r.isPerson(first, renamed) {
		return true
	}
	if r.lower[strings.ToLower(name)]*3 > len(x.mentions) { // also a common word
		return false
	}
	return len(x.mentions) >= 2 && x.person > x.thing && (x.inner || x.acts > 0 && x.person > 1 && r.lower[strings.ToLower(name)] == 0)
}

// fullest gives the one longer name that name is a short form of, or name itself.
func fullest(name string, all, speakers []string) string {
	var fits []string
	for _, other := range append(slices.Clone(speakers), all...) {
		if other != name && shortens(name, other) && !slices.Contains(fits, other) {
			fits = append(fits, other)
		}
	}
	// A short form of a short form leads to the same person.
	slices.SortFunc(fits, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	for _, other := range fits[min(1, len(fits)):] {
		if !shortens(other, fits[0]) {
			return name
		}
	}
	if len(fits) == 0 {
		return name
	}
	return fits[0]
}

// shortens reports whether a is the first name of b, its beginning, or a usual short form.
func shortens(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	first, last, two := strings.Cut(b, " ")
	if two && (a == first || a == last) {
		return true
	}
	if strings.Contains(a, " ") {
		return false
	}
	return nicknames[a] == first || len(a) >= 3 && len(first) >= len(a)+2 && strings.HasPrefix(first, a)
}
