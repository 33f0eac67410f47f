package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/jcs"
	"helix/backend/permission"
	"helix/backend/schema"
)

// Limits of the tools of a server.
const (
	maxTools        = 1000
	maxToolBytes    = 256 << 10
	maxModelText    = 4 << 10 // of a description, for models
	maxFunctionName = 64
)

// Hints are what a server claims about a tool. They may raise its tier and never lower it.
type Hints struct {
	ReadOnly    bool  `json:"readOnlyHint"`
	Idempotent  bool  `json:"idempotentHint"`
	Destructive *bool `json:"destructiveHint,omitempty"` // nil: not stated
	OpenWorld   *bool `json:"openWorldHint,omitempty"`
}

// toolDocument is the definition of a tool, as the server describes it. An approval covers it.
type toolDocument struct {
	Name        string          `json:"name"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"inputSchema,omitempty"`
	Output      json.RawMessage `json:"outputSchema,omitempty"`
	Annotations *Hints          `json:"annotations,omitempty"`
}

// described is a checked definition.
type described struct {
	toolDocument
	raw     json.RawMessage // canonical JSON of the document
	hash    [32]byte
	tokens  int
	problem string // why it cannot be used; "": it can
}

// describe checks the definition of a tool. Only a name that cannot be stored is an error. checked has the
// problems of definitions by hash: schemas are compiled only for those that it doesn't have.
func describe(server string, t *sdk.Tool, checked map[[32]byte]string) (described, error) {
	d := described{toolDocument: toolDocument{Name: t.Name, Title: t.Title, Description: t.Description}}
	if t.Name == "" || len(t.Name) > maxToolBytes {
		return d, fault.Invalidf("a tool without a usable name")
	}
	if a := t.Annotations; a != nil {
		d.Annotations = &Hints{a.ReadOnlyHint, a.IdempotentHint, a.DestructiveHint, a.OpenWorldHint}
		if d.Title == "" {
			d.Title = a.Title
		}
	}
	var err error
	if d.Input, err = schemaText(t.InputSchema); err == nil {
		d.Output, err = schemaText(t.OutputSchema)
	}
	if err != nil {
		d.problem = "Its schema can't be read."
	}
	text, err := d.text()
	if err == nil && len(text) > maxToolBytes {
		d.problem = fmt.Sprintf("Its definition has %d bytes; at most %d are allowed.", len(text), maxToolBytes)
		d.Input, d.Output, d.Description = nil, nil, visible(d.Description, maxModelText)
		text, err = d.text()
	}
	if err == nil {
		err = d.pin(text)
	}
	if err != nil { // numbers that do not fit, for example
		d.problem = "Its definition can't be used: " + fault.As(err).Message
		d.Input, d.Output = nil, nil
		text, _ = json.Marshal(map[string]string{"name": d.Name})
		if err := d.pin(text); err != nil {
			return d, err
		}
	}
	d.tokens = (len(functionName(server, d.Name)) + len(d.Description) + len(d.Input) + 3) / 4
	if d.problem == "" {
		var known bool
		if d.problem, known = checked[d.hash]; !known {
			d.problem = problemOf(server, &d)
		}
	}
	return d, nil
}

// text returns the document as JSON. Its schemas are JSON already, so they are not read again.
func (d *toolDocument) text() ([]byte, error) {
	rest := *d
	rest.Input, rest.Output = nil, nil
	text, err := json.Marshal(rest)
	if err != nil {
		return nil, err
	}
	text = text[:len(text)-1]
	if len(d.Input) > 0 {
		text = append(append(text, `,"inputSchema":`...), d.Input...)
	}
	if len(d.Output) > 0 {
		text = append(append(text, `,"outputSchema":`...), d.Output...)
	}
	return append(text, '}'), nil
}

// pin sets the canonical form of a document and its hash, as jcs.Hash makes it.
func (d *described) pin(text []byte) error {
	const tag = definitionTag + "\x00"
	raw, err := jcs.Append(append(make([]byte, 0, len(tag)+len(text)), tag...), text)
	if err != nil {
		return err
	}
	d.raw, d.hash = raw[len(tag):], sha256.Sum256(raw)
	return nil
}

func schemaText(v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	return json.Marshal(v)
}

func problemOf(server string, d *described) string {
	if _, err := permission.Normalize(permission.MCP, toolID(server, d.Name)); err != nil || d.Name == "*" {
		return "Its name has characters that aren't allowed."
	}
	for what, s := range map[string]json.RawMessage{"input": d.Input, "output": d.Output} {
		if len(s) == 0 {
			continue
		}
		if _, err := schema.Compile(s); err != nil {
			return fmt.Sprintf("Its %s schema can't be used: %s", what, fault.As(err).Message)
		}
	}
	return ""
}

// tier returns how much harm a tool can do, from the user's trust in the server and the server's claims.
func (d *toolDocument) tier(trust string) permission.Tier {
	h := d.Annotations
	if h != nil && h.ReadOnly && (h.Destructive == nil || !*h.Destructive) && trust == TrustRead {
		return permission.ReadOnly
	}
	return permission.SideEffecting
}

// effects returns what a call may do.
func (d *toolDocument) effects(tier permission.Tier) callable.Effects {
	e := callable.Effects{ReadOnly: tier == permission.ReadOnly, OpenWorld: true}
	if h := d.Annotations; h != nil {
		e.Idempotent = false // a claim that nobody checks must not lead to repeated calls
		e.Destructive = h.Destructive != nil && *h.Destructive
	}
	return e
}

// toolID is the id of a tool as a callable, and the resource of its capability.
func toolID(server, tool string) string { return server + "." + tool }

// functionName is the name of a tool for models.
func functionName(server, tool string) string {
	slug := "mcp_" + strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) || r == '_' || r == '-' {
			return unicode.ToLower(r)
		}
		return '_'
	}, server+"_"+tool)
	if len(slug) <= maxFunctionName {
		return slug
	}
	sum := sha256.Sum256([]byte(toolID(server, tool)))
	return slug[:maxFunctionName-7] + "_" + hex.EncodeToString(sum[:3])
}

// approvalDocument is the document of a tool that an approval shows.
func approvalDocument(server string, document json.RawMessage) json.RawMessage {
	var doc map[string]json.RawMessage
	if json.Unmarshal(document, &doc) != nil {
		return document
	}
	var name string
	_ = json.Unmarshal(doc["name"], &name) // our own text
	doc["capabilities"], _ = json.Marshal([]string{permission.FormatCapability(permission.MCP, toolID(server, name))})
	out, err := json.Marshal(doc)
	if err != nil {
		return document
	}
	return out
}
