package tools

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"sync"
)

//go:embed templates
var templateFiles embed.FS

// Template is a small tool that can be used as a template.
type Template struct {
	ID             string          `json:"id"`
	Name           string          `json:"name"`
	Description    string          `json:"description"`
	Icon           string          `json:"icon"`
	Language       Language        `json:"language"`
	Code           string          `json:"code"`
	Parameters     json.RawMessage `json:"parameters"`
	Capabilities   []string        `json:"capabilities"`
	SandboxProfile Profile         `json:"sandboxProfile"`
	SampleParams   json.RawMessage `json:"sampleParams"`
	ExpectedOutput json.RawMessage `json:"expectedOutput"`
}

// TemplatesResult lists the templates that Helix ships.
type TemplatesResult struct {
	Templates []Template `json:"templates"`
}

// templates returns the shipped templates, which are parsed once.
var templates = sync.OnceValues(func() ([]Template, error) {
	raw, err := templateFiles.ReadFile("templates/templates.json")
	if err != nil {
		return nil, err
	}
	var list []Template
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("read templates: %w", err)
	}
	for i := range list {
		ext := ".js"
		if list[i].Language == TypeScript {
			ext = ".ts"
		}
		code, err := templateFiles.ReadFile("templates/" + list[i].ID + ext)
		if err != nil {
			return nil, err
		}
		list[i].Code = string(code)
	}
	return list, nil
})

// Texts returns the English names and descriptions of the templates, by key.
func Texts() (map[string]string, error) {
	list, err := templates()
	out := map[string]string{}
	for _, t := range list {
		out["tool."+t.ID+".name"], out["tool."+t.ID+".description"] = t.Name, t.Description
	}
	return out, err
}

// Templates lists the small tools that can be used as templates.
func (s *Service) Templates(context.Context, struct{}) (TemplatesResult, error) {
	list, err := templates()
	if err != nil {
		return TemplatesResult{}, err
	}
	return TemplatesResult{Templates: list}, nil
}
