package synthesis

import "cmp"

// advice is an entry in the table of recommendations.
type advice struct {
	text, category string
	when           func(p *Pattern) bool // nil: always
}

func negative(p *Pattern) bool { return p.ConfidenceParts["mood"] < 0 }
func positive(p *Pattern) bool { return p.ConfidenceParts["mood"] > 0 }

// adviceTable is keyed by the type of a pattern; at most two entries apply to each. Every entry is
// a suggestion, never a diagnosis or an instruction.
var adviceTable = map[string][]advice{
	"emotional_negative": {
		{"Read the strongest of these texts again and note what helped, if anything did.", "psychological", nil},
		{"If this mood lasts for weeks, consider talking to someone you trust or to a professional.", "psychological", nil},
	},
	"emotional_positive": {{"Note what these moments have in common, so that you can find them again.", "growth", nil}},
	"emotional_trigger": {
		{"Before you next meet this subject, decide how much of it you want.", "psychological", negative},
		{"This subject goes with better moods: consider making time for it.", "growth", positive},
	},
	"emotional_regulation": {{"Keep a short list of what you did before your mood recovered.", "psychological", nil}},
	"topic_connection":     {{"Notice whether one of these two subjects leads you to the other.", "psychological", nil}},
	"intensity_pattern":    {{"Plan demanding things outside the times that are hardest for you.", "behavioral", nil}},
	"relationship": {
		{"Say what you value about this person the next time you talk.", "relational", positive},
		{"Consider what you would like to change in how you two talk.", "relational", negative},
	},
	"support":         {{"Thank this person, or return the help.", "relational", nil}},
	"conflict":        {{"Write down what you wanted in the last of these situations, and what the other person may have wanted.", "relational", nil}},
	"goal":            {{"Choose the next small step and a day for it.", "behavioral", nil}},
	"aspiration":      {{"Decide whether this is a wish or a plan; if it is a plan, give it a date.", "growth", nil}},
	"fear":            {{"Write down what you would do if it happened, and what makes it less likely.", "psychological", nil}},
	"narrative_theme": {{"Collect what you have written about this theme in one note.", "growth", nil}},
	"growth_theme":    {{"Look at the first and the last of these texts side by side.", "growth", nil}},
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
			out = append(out, Recommendation{PatternID: p.ID, Recommendation: r.text, Category: r.category, Priority: priority, Status: "pending"})
		}
	}
	return out
}
