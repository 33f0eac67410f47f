package synthesis

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Engine finds patterns in texts.
type Engine interface {
	Name() string
	// Preview returns what would leave this computer. Nothing is sent without an approval of
	// exactly this text.
	Preview(ctx context.Context, in Input) (Preview, error)
	// Analyze returns patterns without ids. It calls progress with the stage and the progress, 0 to 1.
	Analyze(ctx context.Context, in Input, progress func(stage string, p float64)) (Analysis, error)
}

// Input is the input of an engine.
type Input struct {
	Type      string // one of Types
	Texts     []Text
	Model     string // of the vectors
	Zone      *time.Location
	Threshold float64 // minimum confidence of stored patterns
	Themes    int     // number of topics that the person requested; 0: automatic
	Names     []Alias // the person's corrections of names

	// The fields below are for the engine llm.
	Approved string   // hash of the preview approved by a person
	Hide     []string // names to mask
	Samples  int      // how often the model is asked, 1 or 3
}

// Text is one text with its metadata.
type Text struct {
	ID       string
	Kind     string // memory, turn, conversation
	Parent   string // its conversation, or ""
	Speaker  string // "": the person
	Body     string
	At       time.Time
	Valence  *float64 // set by a person; nil: must be computed
	Salience float64  // 0 to 1
	Vector   []float32
}

// detectors returns the detectors of a synthesis, which are also the categories of their patterns.
func (in Input) detectors() map[string]bool {
	switch in.Type {
	case Emotional:
		return map[string]bool{"emotional": true}
	case Prospective:
		return map[string]bool{"prospective": true}
	case Relational:
		return map[string]bool{"relational": true}
	case Narrative:
		return map[string]bool{"narrative": true}
	}
	return map[string]bool{"temporal": true, "semantic": true, "emotional": true, "relational": true, "prospective": true, "narrative": true}
}

// sortTexts sorts texts by time, then id, so that the order of the input does not matter.
func sortTexts(texts []Text) {
	slices.SortFunc(texts, func(a, b Text) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
}

// Local is the engine that uses only this computer. It is a pure function of its input.
type Local struct{}

// Name implements Engine.
func (Local) Name() string { return "local" }

// Preview implements Engine.
func (Local) Preview(_ context.Context, in Input) (Preview, error) {
	return Preview{ConversationCount: len(in.Texts)}, nil
}

// Analyze implements Engine.
func (l Local) Analyze(ctx context.Context, in Input, progress func(string, float64)) (Analysis, error) {
	a := newAnalysis(ctx, in)
	a.engine, a.progress = l.Name(), progress
	a.out.Patterns = []Pattern{}
	if len(in.Texts) < leastTexts {
		a.out.Summary = tooFew(len(in.Texts))
		return a.out, nil
	}
	run := in.detectors()
	for _, st := range []struct {
		name string
		from float64
		do   func()
		when bool
	}{
		{"valence", 0.05, a.score, true},
		{"temporal", 0.25, a.temporal, run["temporal"]},
		{"semantic", 0.30, a.semantic, run["semantic"]},
		{"emotional", 0.70, a.emotional, run["emotional"]},
		{"relational", 0.78, a.relational, run["relational"]},
		{"prospective", 0.85, a.prospective, run["prospective"]},
		{"narrative", 0.90, a.narrative, run["narrative"]},
	} {
		if err := ctx.Err(); err != nil {
			return Analysis{}, errCanceled
		}
		if st.when {
			progress(st.name, st.from)
			st.do()
		}
		if a.err != nil {
			return Analysis{}, a.err
		}
	}
	a.finish()
	return a.out, nil
}

// newAnalysis prepares the analysis: it sorts the texts and replaces speakers by their corrected names.
func newAnalysis(ctx context.Context, in Input) *analysis {
	a := &analysis{ctx: ctx, in: in, progress: func(string, float64) {}, names: namesOf(in.Names)}
	a.in.Texts = slices.Clone(in.Texts)
	sortTexts(a.in.Texts)
	for i := range a.in.Texts {
		if t := &a.in.Texts[i]; t.Speaker != "" {
			t.Speaker = cmp.Or(a.names.person(t.Speaker), t.Speaker) // a speaker is always a person
		}
	}
	if a.in.Zone == nil {
		a.in.Zone = time.UTC
	}
	return a
}

func tooFew(n int) string {
	return fmt.Sprintf("Texts found: %d. At least %d are needed.", n, leastTexts)
}

type analysis struct {
	ctx      context.Context
	in       Input
	engine   string
	progress func(string, float64)
	err      error

	texts      []scored  // parallel to in.Texts
	usual      float64   // mean valence of all texts
	groups     *grouping // topics; computed on first use
	vocabulary *vocabulary
	happened   []occasion // see occasions; computed together with occasion
	occasion   []int      // of each text
	names      names      // the person's corrections
	persons    []person
	nameOf     map[string]string // person by name in lower case
	out        Analysis
}

// scored is a text with its computed values.
type scored struct {
	valence float64
	arousal float64
	known   bool // valence is a number
}

// finding is a pattern that is being built.
type finding struct {
	typ         string
	subject     string // part of its identity; "" for clusters
	core        string // distinguishes findings of one type and subject
	subjects    []string
	members     []int // indexes of texts
	weights     []float64
	description string
	confidence  float64
	parts       map[string]float64
	series      []Point
	layer       int      // 0: that of the type
	advice      []string // of a model
}

// surest is the maximum confidence of a computed pattern.
const surest = 0.99

// add adds a finding to the result, unless its confidence is NaN or it has no texts.
func (a *analysis) add(f finding) {
	if math.IsNaN(f.confidence) || len(f.members) == 0 {
		return
	}
	kind := patternKinds[f.typ]
	p := Pattern{
		Type: f.typ, PatternType: patternName(f.typ), Layer: cmp.Or(f.layer, kind.layer), Description: f.description, Confidence: round(min(max(f.confidence, 0), surest)),
		ConfidenceParts: map[string]float64{}, Subjects: f.subjects, Recommendations: f.advice, Status: "active", Engine: a.engine, Series: f.series, subject: f.subject, core: f.core,
	}
	if p.Subjects == nil {
		p.Subjects = []string{}
	}
	for name, v := range f.parts {
		p.ConfidenceParts[name] = round(v)
	}
	for i, m := range f.members {
		t, weight := a.in.Texts[m], 1.0
		if f.weights != nil {
			weight = round(f.weights[i])
		}
		p.Evidence = append(p.Evidence, t.ID)
		p.EvidenceDetail = append(p.EvidenceDetail, EvidenceDetail{ID: t.ID, Kind: t.Kind, ParentID: t.Parent, Quote: excerpt(t.Body, quoteRunes), OccurredAt: t.At, Weight: weight})
		p.Salience += t.Salience
	}
	p.Salience = round(min(1, p.Salience/float64(len(f.members))*(0.6+0.4*(1-math.Exp(-float64(len(f.members))/10)))))
	p.Fingerprint = p.fingerprint()
	advised := recommend(&p)
	p.Recommendations = make([]string, len(advised))
	for i, r := range advised {
		p.Recommendations[i] = r.Recommendation
	}
	a.out.Patterns = append(a.out.Patterns, p)
}

// finish sorts the patterns and writes the summary.
func (a *analysis) finish() {
	slices.SortStableFunc(a.out.Patterns, func(x, y Pattern) int {
		switch {
		case x.Confidence > y.Confidence:
			return -1
		case x.Confidence < y.Confidence:
			return 1
		}
		return strings.Compare(x.Fingerprint, y.Fingerprint)
	})
	sure := 0
	for _, p := range a.out.Patterns {
		if p.Confidence >= a.in.Threshold {
			sure++
		}
	}
	first, last := a.in.Texts[0].At, a.in.Texts[len(a.in.Texts)-1].At
	a.out.Summary = fmt.Sprintf("%s in %s %s.", count(sure, "pattern", "patterns"), count(len(a.in.Texts), "text", "texts"), a.span(first, last))
	if sure == 0 && len(a.in.Texts) < 30 {
		a.out.Summary += " Patterns usually show from about 30 texts on."
	}
}

// round rounds confidences and weights, so that they are the same on every machine.
func round(v float64) float64 { return math.Round(v*1e4) / 1e4 }

func count(n int, one, other string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, other)
}
