package memory

import (
	"context"
	"encoding/json"
	"time"

	"helix/backend/callable"
	"helix/backend/memory/search"
	"helix/backend/trash"
)

// Callables returns the built-in steps of memory.
func (s *Service) Callables() []callable.Func {
	return []callable.Func{
		{
			Info: callable.Info{
				Name: "memory.search", Title: "Searches memories, conversations and documents.", Effects: callable.Effects{ReadOnly: true, Idempotent: true}, Untrusted: true,
				Input: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["query"],"properties":{
					"query":{"type":"string","maxLength":8192,"description":"What to look for, in any words."},
					"limit":{"type":"integer","minimum":1,"maximum":100,"description":"Default: 10."},
					"mode":{"enum":["hybrid","keyword","vector"],"description":"Default: hybrid."},
					"tags":{"type":"array","items":{"type":"string"},"description":"All of these tags."},
					"from":{"type":"string","format":"date-time"},"to":{"type":"string","format":"date-time"}}}`),
				Output: json.RawMessage(`{"type":"object","required":["results"],"properties":{"results":{"type":"array","items":{"type":"object","properties":{
					"id":{"type":"string"},"kind":{"type":"string"},"title":{"type":"string"},"snippet":{"type":"string"},"score":{"type":"number"},
					"tags":{"type":"array","items":{"type":"string"}},"source":{"type":"string"},"occurredAt":{"type":"string"},"untrusted":{"type":"boolean"}}}}}}`),
			},
			Run: callable.Typed(func(ctx context.Context, _ callable.Request, in struct {
				Query    string
				Limit    int
				Mode     string
				Tags     []string
				From, To *time.Time
			}) (any, error) {
				return s.Search(ctx, search.Params{Query: in.Query, Limit: in.Limit, Mode: in.Mode, Filters: &search.Filters{TagsAll: in.Tags, From: in.From, To: in.To}})
			}),
		},
		{
			Info: callable.Info{
				Name: "memory.create", Title: "Saves a memory. A text that already exists is not stored twice.", Effects: callable.Effects{Idempotent: true},
				Input: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["content"],"properties":{
					"content":{"type":"string","minLength":1,"maxLength":65536},
					"type":{"type":"string","description":"Default: episodic."},
					"layer":{"type":"integer","minimum":1,"maximum":7},
					"tags":{"type":"array","maxItems":16,"items":{"type":"string","maxLength":64}},
					"occurredAt":{"type":"string","format":"date-time"},
					"salienceTier":{"type":"string","description":"Default: medium."}}}`),
				Output: json.RawMessage(`{"type":"object","required":["deduplicated"],"properties":{"item":{"type":"object"},"deduplicated":{"type":"boolean"}}}`),
			},
			Run: callable.Typed(func(ctx context.Context, r callable.Request, in struct {
				Content, Type string
				Layer         *int
				Tags          []string
				OccurredAt    *time.Time
				SalienceTier  string
			}) (any, error) {
				p := AddParams{Content: in.Content, Type: in.Type, Layer: in.Layer, Tags: in.Tags, OccurredAt: in.OccurredAt, SalienceTier: in.SalienceTier}
				if r.Caller.Kind != "" { // a program wrote it, from data of any origin
					untrusted := true
					p.Source, p.Untrusted, p.SourceRef = "tool", &untrusted, r.Caller.Kind+":"+r.Caller.Run.String()
				}
				p.byModel = r.Caller.Kind == "agent"
				out, err := s.Add(ctx, p)
				if err == nil && out.Item == nil && p.byModel {
					return addNote{out, "Nothing was stored: this repeats a memory, your instructions or the result of a tool."}, nil
				}
				return out, err
			}),
		},
	}
}

// addNote tells a model why its text was not stored.
type addNote struct {
	AddResult
	Note string `json:"note"`
}

// AgentCallables returns the tools with which an agent corrects memories. Both can be undone.
func (s *Service) AgentCallables() []callable.Func {
	return []callable.Func{
		{
			Info: callable.Info{
				Name: "memory.update", Title: "Changes the text or the tags of a memory.", Effects: callable.Effects{Idempotent: true},
				Input: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["id"],"minProperties":2,"properties":{"id":{"type":"string","format":"uuid"},
					"content":{"type":"string","minLength":1,"maxLength":65536},"tags":{"type":"array","maxItems":16,"items":{"type":"string","maxLength":64}}}}`),
			},
			Run: callable.Typed(func(ctx context.Context, r callable.Request, in struct {
				ID      string
				Content *string
				Tags    *[]string
			}) (any, error) {
				now, err := s.Get(ctx, GetParams{ID: in.ID})
				if err != nil {
					return nil, err
				}
				p := UpdateParams{ID: in.ID, Version: now.Version, Content: in.Content, Tags: in.Tags}
				if in.Content != nil && r.Caller.Kind != "" { // a program wrote it, from data of any origin
					untrusted := true
					p.Untrusted = &untrusted
				}
				return s.Update(ctx, p)
			}),
		},
		{
			Info: callable.Info{
				Name: "memory.delete", Title: "Moves memories to the trash.", Effects: callable.Effects{Idempotent: true, Destructive: true},
				Input: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["ids"],"properties":{"ids":{"type":"array","minItems":1,"maxItems":100,"items":{"type":"string","format":"uuid"}}}}`),
			},
			Run: callable.Typed(func(ctx context.Context, r callable.Request, p IDsParams) (any, error) {
				return s.Delete(trash.By(ctx, r.Caller.Kind), p)
			}),
		},
	}
}
