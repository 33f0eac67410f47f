package providers

import (
	"context"
	"slices"
	"sync"
)

// The numbers of bytes per token.
const (
	firstRatio   = 3.6
	leastRatio   = 2.0
	mostRatio    = 6.0
	ratioSamples = 15
	imageTokens  = 1_600 // approximate count for an image of common size

	// templateTokens exceeds what services add to a prompt: none of 341 recorded prompts without
	// images needs more than this beyond leastRatio.
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

// roughTokens estimates the tokens of a request without information about the model.
func roughTokens(q Request) int64 {
	n, images := size(q)
	return int64(float64(n)/firstRatio) + int64(images*imageTokens) + 1
}

// mostTokens returns an upper bound on the tokens of a prompt, for reservations.
func mostTokens(q Request) int64 {
	n, images := size(q)
	return int64(float64(n)/leastRatio) + int64(images*imageTokens) + templateTokens
}

// ratios learns the number of bytes per token of each model, as the median of what services reported.
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

// most returns an upper bound on the tokens of a prompt. Once the model's ratio is learned, it uses
// that with a margin of one tenth.
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

// CountParams names a model and the content to count.
type CountParams struct {
	Model    ModelRef   `json:"model,omitempty"`
	Text     string     `json:"text,omitempty"`
	Messages []Message  `json:"messages,omitempty"`
	Tools    []ToolDecl `json:"tools,omitempty"`
}

// CountResult is a number of tokens.
type CountResult struct {
	Tokens int64 `json:"tokens"`
	// Method is exact if the model's vocabulary is public and covers all of the content, calibrated
	// if services have reported the sizes of earlier prompts, otherwise estimate.
	Method string      `json:"method"`
	Parts  []CountPart `json:"parts"`
}

// CountPart is the number of tokens of one part.
type CountPart struct {
	Name   string `json:"name"`
	Tokens int64  `json:"tokens"`
}

// CountTokens counts or estimates the tokens of a text or a conversation for a model.
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
		n := int64(float64(bytes)*1.1/ratio) + int64(images*imageTokens) + 1 // with a margin of one tenth
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
