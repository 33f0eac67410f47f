package mcp

import (
	"context"
	"encoding/json"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"helix/backend/duration"
	"helix/backend/fault"
)

// Prompt is a prompt that a server offers. Its texts are what the server says.
type Prompt struct {
	Name        string           `json:"name"`
	Title       string           `json:"title,omitempty"`
	Description string           `json:"description,omitempty"`
	Arguments   []PromptArgument `json:"arguments"`
}

// PromptArgument is an argument of a prompt.
type PromptArgument struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
}

// PromptsResult lists the prompts of a server.
type PromptsResult struct {
	Prompts []Prompt `json:"prompts"`
}

const maxListed = 1000

// Prompts lists the prompts of an MCP server, which is started if necessary.
func (s *Service) Prompts(ctx context.Context, p NameParams) (PromptsResult, error) {
	out := PromptsResult{Prompts: []Prompt{}}
	err := s.ask(ctx, p.Name, func(ctx context.Context, session *sdk.ClientSession) error {
		out.Prompts = out.Prompts[:0]
		for pr, err := range session.Prompts(ctx, nil) {
			if err != nil {
				return err
			}
			if len(out.Prompts) >= maxListed {
				break
			}
			if pr == nil {
				continue
			}
			v := Prompt{Name: visible(pr.Name, 256), Title: visible(pr.Title, 256), Description: visible(pr.Description, maxModelText), Arguments: []PromptArgument{}}
			for _, a := range pr.Arguments {
				if a == nil {
					continue
				}
				v.Arguments = append(v.Arguments, PromptArgument{visible(a.Name, 256), visible(a.Description, maxModelText), a.Required})
			}
			out.Prompts = append(out.Prompts, v)
		}
		return nil
	})
	return out, err
}

// PromptParams name a prompt and contain its arguments.
type PromptParams struct {
	Name      string            `json:"name"`
	Prompt    string            `json:"prompt"`
	Arguments map[string]string `json:"arguments,omitempty"`
}

// PromptMessage is one message of a prompt.
type PromptMessage struct {
	Role    string `json:"role"` // user or assistant
	Content Part   `json:"content"`
}

// PromptResult contains the messages of a prompt, which come from outside.
type PromptResult struct {
	Description string          `json:"description,omitempty"`
	Messages    []PromptMessage `json:"messages"`
	Untrusted   bool            `json:"untrusted"`
}

// GetPrompt returns a prompt of an MCP server, filled in with arguments.
func (s *Service) GetPrompt(ctx context.Context, p PromptParams) (PromptResult, error) {
	out := PromptResult{Messages: []PromptMessage{}, Untrusted: true}
	err := s.ask(ctx, p.Name, func(ctx context.Context, session *sdk.ClientSession) error {
		r, err := session.GetPrompt(ctx, &sdk.GetPromptParams{Name: p.Prompt, Arguments: p.Arguments})
		if err != nil {
			return err
		}
		out.Description, out.Messages = visible(r.Description, maxModelText), out.Messages[:0]
		for _, m := range r.Messages {
			if m == nil {
				continue
			}
			for _, part := range parts([]sdk.Content{m.Content}) {
				out.Messages = append(out.Messages, PromptMessage{string(m.Role), part})
			}
		}
		return nil
	})
	return out, err
}

// Resource is a resource that a server offers.
type Resource struct {
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	MIMEType    string `json:"mimeType,omitempty"`
	Size        int64  `json:"size,omitempty"`
}

// ResourcesResult lists the resources of a server.
type ResourcesResult struct {
	Resources []Resource `json:"resources"`
}

// Resources lists the resources of an MCP server, which is started if necessary.
func (s *Service) Resources(ctx context.Context, p NameParams) (ResourcesResult, error) {
	out := ResourcesResult{Resources: []Resource{}}
	err := s.ask(ctx, p.Name, func(ctx context.Context, session *sdk.ClientSession) error {
		out.Resources = out.Resources[:0]
		for r, err := range session.Resources(ctx, nil) {
			if err != nil {
				return err
			}
			if len(out.Resources) >= maxListed {
				break
			}
			if r == nil {
				continue
			}
			out.Resources = append(out.Resources, Resource{visible(r.URI, 4096), visible(r.Name, 256), visible(r.Title, 256), visible(r.Description, maxModelText), visible(r.MIMEType, 128), r.Size})
		}
		return nil
	})
	return out, err
}

// ResourceParams name a resource.
type ResourceParams struct {
	Name string `json:"name"`
	URI  string `json:"uri"`
}

// ResourceResult is the content of a resource, which comes from outside.
type ResourceResult struct {
	Contents  []Part `json:"contents"`
	Untrusted bool   `json:"untrusted"`
}

// ReadResource returns the content of a resource of an MCP server, up to 1 MiB.
func (s *Service) ReadResource(ctx context.Context, p ResourceParams) (ResourceResult, error) {
	out := ResourceResult{Contents: []Part{}, Untrusted: true}
	err := s.ask(ctx, p.Name, func(ctx context.Context, session *sdk.ClientSession) error {
		r, err := session.ReadResource(ctx, &sdk.ReadResourceParams{URI: p.URI})
		if err != nil {
			return err
		}
		out.Contents = out.Contents[:0]
		for _, c := range r.Contents {
			if c == nil {
				continue
			}
			out.Contents = append(out.Contents, Part{Type: "resource", URI: c.URI, MIMEType: c.MIMEType, Text: c.Text, Data: c.Blob})
		}
		return nil
	})
	if b, merr := json.Marshal(out.Contents); err == nil && merr == nil && len(b) > maxOutput {
		return ResourceResult{}, fault.Limitf("The resource has more than %d bytes.", maxOutput)
	}
	return out, err
}

// ask calls fn with the session of a server of the caller.
func (s *Service) ask(ctx context.Context, name string, fn func(ctx context.Context, session *sdk.ClientSession) error) error {
	if err := s.syncApprovals(ctx); err != nil {
		return err
	}
	r, err := s.row(ctx, name)
	if err != nil {
		return err
	}
	if err := s.checkStart(ctx, &r); err != nil {
		return err
	}
	l := s.link(&r)
	return l.use(ctx, func(ctx context.Context, session *sdk.ClientSession) error {
		ctx, cancel := context.WithTimeout(ctx, duration.Of(r.TimeoutMs, time.Millisecond))
		defer cancel()
		return fn(ctx, session)
	})
}
