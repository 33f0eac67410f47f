package synthesis

import "cmp"

// advice is an entry in the table of recommendations.
type advice struct {
	text, category string
	when           func(p *Pattern) bool // nil: always
	first          string                // its first wording, which keeps its ID; empty when the text is still that
}

func negative(p *Pattern) bool { return p.ConfidenceParts["mood"] < 0 }
func positive(p *Pattern) bool { return p.ConfidenceParts["mood"] > 0 }

// adviceTable is keyed by the type of a pattern; at most two entries apply to each. Every entry is
// a suggestion, never a diagnosis or an instruction.
var adviceTable = map[string][]advice{
	"emotional_negative": {
		{text: "Reread the strongest of these texts and note what helped, if anything did.", category: "psychological", first: "Read the strongest of these texts again and note what helped, if anything did."},
		{text: "If this mood lasts for weeks, consider talking to someone you trust or to a professional.", category: "psychological"},
	},
	"emotional_positive": {{text: "Note what these moments have in common, so you can create more of them.", category: "growth", first: "Note what these moments have in common, so that you can find them again."}},
	"emotional_trigger": {
		{text: "Before this comes up again, decide how much room you want to give it.", category: "psychological", when: negative, first: "Before you next meet this subject, decide how much of it you want."},
		{text: "This tends to go with a better mood. Consider making more time for it.", category: "growth", when: positive, first: "This subject goes with better moods: consider making time for it."},
	},
	"emotional_regulation": {{text: "Keep a short list of what you did before your mood recovered.", category: "psychological"}},
	"topic_connection":     {{text: "Notice whether one of these topics leads you to the other.", category: "psychological", first: "Notice whether one of these two subjects leads you to the other."}},
	"intensity_pattern":    {{text: "If these times are hard for you, plan demanding things around them.", category: "behavioral", first: "Plan demanding things outside the times that are hardest for you."}},
	"relationship": {
		{text: "Next time you talk, tell this person what you value about them.", category: "relational", when: positive, first: "Say what you value about this person the next time you talk."},
		{text: "Consider what you'd like to change about how you two talk.", category: "relational", when: negative, first: "Consider what you would like to change in how you two talk."},
	},
	"support":         {{text: "Thank this person, or return the favor.", category: "relational", first: "Thank this person, or return the help."}},
	"conflict":        {{text: "Think of the latest of these situations: write down what you wanted, and what the other person may have wanted.", category: "relational", first: "Write down what you wanted in the last of these situations, and what the other person may have wanted."}},
	"goal":            {{text: "Pick the next small step and a day for it.", category: "behavioral", first: "Choose the next small step and a day for it."}},
	"aspiration":      {{text: "Decide whether this is a wish or a plan. If it's a plan, give it a date.", category: "growth", first: "Decide whether this is a wish or a plan; if it is a plan, give it a date."}},
	"fear":            {{text: "Write down what you would do if it happened, and what makes it less likely.", category: "psychological"}},
	"narrative_theme": {{text: "Collect what you've written about this theme in one note.", category: "growth", first: "Collect what you have written about this theme in one note."}},
	"growth_theme":    {{text: "Read the first and the last of these texts side by side.", category: "growth", first: "Look at the first and the last of these texts side by side."}},
}

// modelCategories maps a detector to the category of a model's recommendations.
var modelCategories = map[string]string{"emotional": "psychological", "relational": "relational", "temporal": "behavioral"}

// recommend returns the recommendations for a pattern.
func recommend(p *Pattern) (out []Recommendation) {
	priority := "medium"
	switch {
	case p.Confidence >= 0.85 && p.Salience >= 0.6:
		priority = "high"
	case p.Confidence < 0.75:
		priority = "low"
	}
	list := adviceTable[p.Type]
	if p.Engine == "llm" {
		list = nil
		for _, text := range p.Recommendations {
			list = append(list, advice{text: text, category: cmp.Or(modelCategories[patternKinds[p.Type].detector], "growth")})
		}
	}
	for _, r := range list {
		if len(out) < 2 && (r.when == nil || r.when(p)) {
			out = append(out, Recommendation{PatternID: p.ID, Recommendation: r.text, Category: r.category, Priority: priority, Status: "pending", first: cmp.Or(r.first, r.text)})
		}
	}
	return out
}
