package providers

import (
	"context"
	"slices"
	"sync"
)

// Ratios of bytes to tokens.
const (
	firstRatio   = 3.6
	leastRatio   = 2.0
	mostRatio    = 6.0
	ratioSamples = 15
	imageTokens  = 1_600 // about what the wires count for one of a usual size

	// templateTokens is more than services add to a prompt by themselves: of 341 recorded prompts
	// without images none takes more than this beyond leastRatio.
	templateTokens = 1_000
)

// size returns the bytes of text in a request and the number of its attachments.
func size(q Request) (bytes, images int) {
	add := func(parts []Part) {
		for _, p := range parts {
			bytes += len(p.Text) + len(p.Args) + len(p.Name)
			if p.Kind == PartImage || p.Kind == PartFile {
				images++
			}
			if p.Opaque != nil {
				bytes += len(p.Opaque.Data)
			}
		}
	}
	add(q.System)
	for _, m := range q.Messages {
		bytes += 8
		add(m.Parts)
	}
	for _, t := range q.Tools {
		bytes += len(t.Name) + len(t.Description) + len(t.Input)
	}
	if q.Schema != nil {
		bytes += len(q.Schema.Schema)
	}
	return bytes, images
}

// roughTokens estimates a request without knowledge of the model.
func roughTokens(q Request) int64 {
	n, images := size(q)
	return int64(float64(n)/firstRatio) + int64(images*imageTokens) + 1
}

// mostTokens is an upper bound of the tokens of a prompt, for reservations.
func mostTokens(q Request) int64 {
	n, images := size(q)
	return int64(float64(n)/leastRatio) + int64(images*imageTokens) + templateTokens
}

// ratios learns how many bytes a token of a model has, as a median of what services reported.
type ratios struct {
	mu      sync.Mutex
	samples map[ModelRef][]float64
}

func (r *ratios) learn(ref ModelRef, q Request, u Usage) {
	n, images := size(q)
	tokens := u.Prompt() - int64(images*imageTokens)
	if u.Estimated || tokens < 32 || n < 100 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.samples == nil {
		r.samples = map[ModelRef][]float64{}
	}
	r.samples[ref] = append(r.samples[ref], min(max(float64(n)/float64(tokens), leastRatio), mostRatio))
	r.samples[ref] = r.samples[ref][max(0, len(r.samples[ref])-ratioSamples):]
}

// most returns what a prompt takes at most: by the model's own ratio with a reserve of a tenth, once that
// is learned.
func (r *ratios) most(ref ModelRef, q Request) int64 {
	ratio, learned := r.of(ref)
	if !learned {
		return mostTokens(q)
	}
	n, images := size(q)
	return int64(1.1*float64(n)/ratio) + int64(images*imageTokens) + 1
}

// of returns the ratio of a model and whether it was learned.
func (r *ratios) of(ref ModelRef) (float64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := slices.Sorted(slices.Values(r.samples[ref]))
	if len(s) == 0 {
		return firstRatio, false
	}
	return s[len(s)/2], true
}

// CountParams name a model and what is counted.
type CountParams struct {
	Model    ModelRef   `json:"model,omitempty"`
	Text     string     `json:"text,omitempty"`
	Messages []Message  `json:"messages,omitempty"`
	Tools    []ToolDecl `json:"tools,omitempty"`
}

// CountResult says how many tokens there are.
type CountResult struct {
	Tokens int64 `json:"tokens"`
	// Method is exact where the vocabulary of the model is public and counts all of it, calibrated where
	// services reported the sizes of earlier prompts, else estimate.
	Method string      `json:"method"`
	Parts  []CountPart `json:"parts"`
}

// CountPart is the share of one part.
type CountPart struct {
	Name   string `json:"name"`
	Tokens int64  `json:"tokens"`
}

// CountTokens counts how many tokens a text or a conversation has for a model, or estimates it.
func (s *Service) CountTokens(_ context.Context, p CountParams) (CountResult, error) {
	ratio, learned := s.ratios.of(p.Model)
	vocabulary := s.vocabularies.of(p.Model)
	estimated := "estimate"
	if learned {
		estimated = "calibrated"
	}
	out := CountResult{Method: estimated, Parts: []CountPart{}}
	if vocabulary != nil {
		out.Method = "exact"
	}
	add := func(name string, q Request) {
		bytes, images := size(q)
		if bytes+images == 0 {
			return
		}
		n := int64(float64(bytes)*1.1/ratio) + int64(images*imageTokens) + 1 // a tenth in reserve
		if vocabulary != nil {
			var exact bool
			if n, exact = vocabulary.request(q); !exact {
				out.Method = estimated
			}
		}
		out.Parts = append(out.Parts, CountPart{name, n})
		out.Tokens += n
	}
	add("text", Request{System: []Part{TextPart(p.Text)}})
	add("messages", Request{Messages: p.Messages})
	add("tools", Request{Tools: p.Tools})
	return out, nil
}
