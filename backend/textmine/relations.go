package textmine

// RelationKind says what passes between people.
type RelationKind string

// Kinds of relations.
const (
	Support  RelationKind = "support"
	Conflict RelationKind = "conflict"
)

// Relation is a sign of support or conflict.
type Relation struct {
	Span
	Kind RelationKind
}

// relationPatterns are lemmas; a bar separates alternatives and * stands for up to two words.
var relationPatterns = []struct {
	kind RelationKind
	text string
}{
	{Support, `support me|us|you|him|her|them|each|one
		support from
		* supportive
		be here|there for me|you|us|him|her|them|each
		be by|on my|your|his|her side
		have my|your|his|her|our back
		got my|your|his|her|our back
		get my|your|his|her|our back
		help me|us|you|him|her|them
		help out
		encourage me|us|you|him|her|them
		encouragement
		comfort me|us|you|him|her|them
		comfort
		cheer me|us|you|him|her|them
		cheer on
		listen to me|us|her|him
		believe in me|you|him|her|us
		proud of me|you|him|her|us|them
		stand by me|you|him|her|us
		take care of me|you|him|her|us
		look after me|you|him|her|us
		calm me down
		reassure
		hug me|her|him|each
		lend me|us|him|her|them
		thank * support|help|encouragement|advice
		unterstützt
		geholfen
		für mich|dich|uns da`},
	{Conflict, `argue
		argument
		quarrel
		fight with|about|over
		have a|another|big|huge|terrible|stupid fight
		big|huge|terrible|stupid|another fight
		yell at
		shout at
		scream at
		snap at
		betray
		lie to me|us|him|her|you|them
		lie about
		ignore me|us|him|her|my
		insult
		blame me|him|her|us|them
		accuse me|him|her|us|them
		mad|angry|furious|upset|annoyed|annoy at|with
		fall out with|over
		fell out
		not|stop speak|talk to each|me|him|her
		i|we|they break up
		break up with
		cheat on
		disagree
		criticize
		criticise
		resent
		hang up on
		let me|us|him|her|them down
		slam
		hold grudge
		tension between|with|at
		hurt my feelings|feeling
		storm out
		silent treatment
		kick me|us|him|her|them out
		gestritten
		streiten
		streit mit`},
}

// relationRules are the patterns by their first words.
var relationRules = func() map[string][]relationRule {
	out := map[string][]relationRule{}
	for _, group := range relationPatterns {
		for _, p := range patterns("", "", group.text) {
			rule := relationRule{group.kind, p.words}
			for _, first := range p.words[0] {
				if first == "*" {
					for _, second := range p.words[1] {
						out[second] = append(out[second], relationRule{group.kind, p.words[1:]})
					}
					continue
				}
				out[first] = append(out[first], rule)
			}
		}
	}
	return out
}()

type relationRule struct {
	kind  RelationKind
	words [][]string
}

// Relations finds signs of support and conflict in a text: whole words in any inflection, neither
// negated nor quoted nor asked for.
func Relations(text string) (out []Relation) {
	for _, s := range Parse(text) {
		lemmas := make([]string, len(s.Tokens))
		for i, t := range s.Tokens {
			lemmas[i] = Lemma(t.Lower)
		}
		for i := 0; i < len(lemmas); i++ {
			if s.Tokens[i].Quoted || s.Question {
				continue
			}
			for _, rule := range relationRules[lemmas[i]] {
				end := relationEnd(lemmas, s.Tokens, i, rule.words)
				if end == 0 || s.Tokens[i].Negated && !negations[lemmas[i]] || intended(lemmas, i) {
					continue
				}
				out = append(out, Relation{Span{s.Tokens[i].Start, s.Tokens[end-1].End}, rule.kind})
				i = end - 1
				break
			}
		}
	}
	return out
}

func relationEnd(lemmas []string, tokens []Token, i int, words [][]string) int {
	for k, alternatives := range words {
		if alternatives[0] == "*" {
			for skip := 0; skip < 4; skip++ {
				if end := relationEnd(lemmas, tokens, i+skip, words[k+1:]); end > 0 {
					return end
				}
			}
			return 0
		}
		fit := false
		for ; i < len(lemmas) && !fit; i++ {
			for _, a := range alternatives {
				fit = fit || lemmas[i] == a || tokens[i].Lower == a
			}
			if !fit && (k == 0 || !adverbs[tokens[i].Lower] || tokens[i].Break) {
				return 0
			}
		}
		if !fit {
			return 0
		}
	}
	return i
}

// intended reports whether the verb at i is only wished or possible: "I want to help you".
func intended(lemmas []string, i int) bool {
	for j := max(0, i-2); j < i; j++ {
		switch lemmas[j] {
		case "to", "if", "would", "could", "should", "might", "may", "can", "will":
			return true
		}
	}
	return false
}
