package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"helix/backend/fault"
)

// Limits of results.
const (
	maxOutput    = 1 << 20  // for callers; more goes to a file
	maxRowOutput = 64 << 10 // in the row of a call
	maxErrorText = 4 << 10
)

// Part is one part of a result.
type Part struct {
	Type     string `json:"type"` // text, image, audio, resource or link
	Text     string `json:"text,omitempty"`
	MIMEType string `json:"mimeType,omitempty"`
	URI      string `json:"uri,omitempty"`
	Name     string `json:"name,omitempty"`
	Data     []byte `json:"data,omitempty"` // base64
}

// parts converts the content of a result. Links are not followed.
func parts(content []sdk.Content) []Part {
	out := []Part{}
	for _, c := range content {
		switch c := c.(type) {
		case *sdk.TextContent:
			out = append(out, Part{Type: "text", Text: c.Text})
		case *sdk.ImageContent:
			out = append(out, Part{Type: "image", MIMEType: c.MIMEType, Data: c.Data})
		case *sdk.AudioContent:
			out = append(out, Part{Type: "audio", MIMEType: c.MIMEType, Data: c.Data})
		case *sdk.ResourceLink:
			out = append(out, Part{Type: "link", URI: c.URI, Name: c.Name, MIMEType: c.MIMEType})
		case *sdk.EmbeddedResource:
			if r := c.Resource; r != nil {
				out = append(out, Part{Type: "resource", URI: r.URI, MIMEType: r.MIMEType, Text: r.Text, Data: r.Blob})
			}
		}
	}
	return out
}

// textOf joins the text parts. only reports whether there is nothing else.
func textOf(list []Part) (text string, only bool) {
	only = true
	var b strings.Builder
	for _, p := range list {
		if p.Type != "text" {
			only = false
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.Text)
	}
	return b.String(), only
}

// readResult checks the result of a call and fills out. The output is the structured content, or the
// text if there is nothing but text, or else all parts. A failure that the tool reports is an error
// with its text.
func (s *Service) readResult(ctx context.Context, t *storedTool, out *outcome) error {
	list := parts(out.result.Content)
	text, only := textOf(list)
	out.text, out.isError = text, out.result.IsError
	var v any
	switch {
	case out.result.StructuredContent != nil:
		v = out.result.StructuredContent
	case only:
		v = text
	default:
		v = map[string]any{"content": list}
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fault.Internalf(err, "The output of %s can't be written as JSON.", t.info.ID)
	}
	out.output = b
	if out.isError {
		return fault.New(fault.Internal, "%s", visible(first(text, "The tool reported an error without a text."), maxErrorText)).WithCause(errTool)
	}
	if schema := t.info.Output; len(schema) > 0 {
		if out.result.StructuredContent == nil {
			return fault.New(fault.Internal, "%s returned no structured content, which its output schema promises.", t.info.ID).WithCause(errOutput)
		}
		found, err := s.schemas.CheckJSON(ctx, schema, b)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			return fault.New(fault.Internal, "The output of %s doesn't match its schema: %s: %s.", t.info.ID, first(found[0].Path, "the whole"), found[0].Message).WithCause(errOutput)
		}
	}
	return nil
}

// forCaller returns the output for the caller: all of it, or the beginning if it is too large.
func (o *outcome) forCaller() (json.RawMessage, []string) {
	if len(o.output) <= maxOutput {
		return o.output, nil
	}
	b, _ := json.Marshal(map[string]any{"truncated": true, "bytes": len(o.output), "text": clip(first(o.text, string(o.output)), maxRowOutput)}) // texts only
	return b, []string{fmt.Sprintf("The output has %d bytes, so only its beginning is here. All of it is kept with call %s.", len(o.output), o.id)}
}

// clip truncates s to n bytes at a character boundary.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
