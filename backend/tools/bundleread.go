package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"helix/backend/fault"
	"helix/backend/lifecycle"
)

func bundleError(item int, field, format string, args ...any) error {
	msg := fmt.Sprintf(format, args...)
	if item >= 0 {
		msg = fmt.Sprintf("Tool %d of the bundle, %s: %s", item+1, field, msg)
	}
	return fault.Invalidf("%s Nothing was imported.", msg).WithDetails(lifecycle.BundleProblem{Item: item, Field: field})
}

// candidate is one tool of a bundle that has passed all checks that need no database.
type candidate struct {
	lifecycle.Incoming
	tool     BundleTool
	examined examined
	digest   string // of everything that will be stored
}

// readBundle reads a bundle, or one tool in the older form, and checks all of it.
func (k checker) readBundle(ctx context.Context, raw []byte) ([]candidate, error) {
	raw, headed, err := bundleContainer.Read(raw)
	if err != nil {
		field := ""
		if e := (*lifecycle.ContainerError)(nil); errors.As(err, &e) {
			field = e.Field
		}
		return nil, bundleError(-1, field, "%s", fault.As(err).Message)
	}
	var tools []BundleTool
	var notes [][]string
	if headed {
		var b Bundle
		if err := json.Unmarshal(raw, &b); err != nil {
			return nil, bundleError(-1, fieldOf(err), "The bundle cannot be read: a field has the wrong type.")
		}
		tools = b.Tools
	} else {
		t, note, err := readLegacy(raw)
		if err != nil {
			return nil, err
		}
		tools, notes = []BundleTool{t}, [][]string{note}
	}
	if len(tools) == 0 || len(tools) > maxBundleTools {
		return nil, bundleError(-1, "tools", "The bundle has %d tools; it must have 1 to %d.", len(tools), maxBundleTools)
	}
	names := map[string]bool{}
	out := make([]candidate, 0, len(tools))
	for i, t := range tools {
		c, err := k.checkCandidate(ctx, i, t)
		if err != nil {
			return nil, err
		}
		key := strings.ToLower(c.tool.Definition.Name)
		if names[key] {
			return nil, bundleError(i, "name", "Two tools of the bundle are named %q.", c.tool.Definition.Name)
		}
		names[key] = true
		if notes != nil {
			c.Warnings = append(notes[i], c.Warnings...)
		}
		out = append(out, c)
	}
	return out, nil
}

func fieldOf(err error) string {
	var te *json.UnmarshalTypeError
	if errors.As(err, &te) {
		return te.Field
	}
	return ""
}

// checkCandidate runs the checks that every saved tool must pass.
func (k checker) checkCandidate(ctx context.Context, i int, t BundleTool) (candidate, error) {
	field := func(name string, err error) error {
		return bundleError(i, name, "%s", fault.As(err).Message)
	}
	c := candidate{tool: t}
	var err error
	if c.tool.Definition.Name, err = lifecycle.CheckName("tool", t.Definition.Name); err != nil {
		return c, field("name", err)
	}
	if c.tool.Version == "" {
		c.tool.Version = "1.0.0"
	}
	if err := lifecycle.CheckVersion(c.tool.Version); err != nil {
		return c, field("version", err)
	}
	if err := lifecycle.CheckText("author", t.Author, maxAuthor); err != nil {
		return c, field("author", err)
	}
	if err := checkIcon(t.Icon); err != nil {
		return c, field("icon", err)
	}
	if c.tool.Tags, err = cleanTags(t.Tags); err != nil {
		return c, field("tags", err)
	}
	if c.tool.Samples, err = checkSamples(t.Samples); err != nil {
		return c, field("samples", err)
	}
	c.examined = k.examine(ctx, t.Definition.definition())
	if !c.examined.result.Valid {
		p := c.examined.result.Errors[0]
		return c, bundleError(i, p.Field, "%s", p.Message)
	}
	c.tool.Definition = c.examined.def.bundle(c.tool.Definition.Name)
	if len(t.History) > maxVersions {
		return c, bundleError(i, "history", "The history has more than %d versions.", maxVersions)
	}
	labels := map[string]bool{c.tool.Version: true}
	for j, v := range t.History {
		at := fmt.Sprintf("history[%d]", j)
		if err := lifecycle.CheckVersion(v.Version); err != nil {
			return c, field(at+".version", err)
		}
		if labels[v.Version] {
			return c, bundleError(i, at+".version", "The version %s is given twice.", v.Version)
		}
		labels[v.Version] = true
		if err := lifecycle.CheckText("note", v.Note, 1000); err != nil {
			return c, field(at+".note", err)
		}
		if ex := k.examine(ctx, v.Definition.definition()); !ex.result.Valid {
			return c, bundleError(i, at+"."+ex.result.Errors[0].Field, "%s", ex.result.Errors[0].Message)
		}
	}
	c.Incoming = lifecycle.Incoming{Name: c.tool.Definition.Name, Author: c.tool.Author, Hash: hashText(c.examined.hash), Signature: c.tool.Signature, State: c.signatureState()}
	c.explain()
	c.digest = digest(lifecycle.Text(c.tool))
	return c, nil
}

// signatureState verifies the signature against the tool in the bundle. Renaming the tool or
// changing its version invalidates the signature.
func (c *candidate) signatureState() lifecycle.SignatureState {
	sig := c.tool.Signature
	if sig == nil {
		return lifecycle.SignatureNone
	}
	if sig.Name != c.tool.Definition.Name || sig.Version != c.tool.Version || sig.Author != c.tool.Author {
		return lifecycle.SignatureInvalid
	}
	return sig.Verify(c.examined.hash, c.tool.Definition.Code)
}

func (c *candidate) explain() {
	switch c.State {
	case lifecycle.SignatureNone:
		c.Warnings = append(c.Warnings, "The tool is not signed. You will be asked to trust this version before its first run.")
	case lifecycle.SignatureLegacy:
		c.Warnings = append(c.Warnings, "The signature uses the older format, which does not cover the tool's capabilities, so the tool is treated as unsigned.")
	}
	for _, p := range c.examined.result.Warnings {
		text := p.Message
		if p.Line > 0 {
			text = fmt.Sprintf("Line %d: %s", p.Line, text)
		}
		c.Warnings = append(c.Warnings, text)
	}
}

// legacyTool is a tool as written by older programs, with names in camelCase or snake_case.
type legacyTool struct {
	Name            string            `json:"name"`
	Description     string            `json:"description"`
	Code            string            `json:"code"`
	Language        string            `json:"language"`
	Parameters      json.RawMessage   `json:"parameters"`
	InputSchema     json.RawMessage   `json:"inputSchema"`
	InputSchemaOld  json.RawMessage   `json:"input_schema"`
	Capabilities    []json.RawMessage `json:"capabilities"`
	AllowedHosts    []string          `json:"allowedHosts"`
	AllowedHostsOld []string          `json:"allowed_hosts"`
	Profile         string            `json:"sandboxProfile"`
	ProfileOld      string            `json:"sandbox_profile"`
	Version         string            `json:"version"`
	Author          string            `json:"author"`
	Tags            []string          `json:"tags"`
	Icon            string            `json:"icon"`
	Signature       string            `json:"signature"`
	PublicKey       string            `json:"publicKey"`
	PublicKeyOld    string            `json:"public_key"`
	SignedAt        string            `json:"signedAt"`
	SignedAtOld     string            `json:"signed_at"`
}

// readLegacy reads one tool in the older form. It ignores isEnabled and enabled, because an
// imported tool is always disabled.
func readLegacy(raw []byte) (BundleTool, []string, error) {
	var l legacyTool
	if err := json.Unmarshal(raw, &l); err != nil {
		return BundleTool{}, nil, bundleError(0, fieldOf(err), "A field has the wrong type.")
	}
	if l.Name == "" || l.Code == "" {
		return BundleTool{}, nil, bundleError(-1, "", "This file is neither a tool bundle nor a tool.")
	}
	first := func(list ...string) string {
		for _, s := range list {
			if s != "" {
				return s
			}
		}
		return ""
	}
	t := BundleTool{Version: first(l.Version, "1.0.0"), Author: l.Author, Tags: l.Tags, Icon: l.Icon}
	t.Definition = BundleDefinition{
		Name: l.Name, Description: l.Description, Code: l.Code, Language: Language(strings.ToLower(first(l.Language, "javascript"))),
		Parameters: l.Parameters, SandboxProfile: Profile(first(l.Profile, l.ProfileOld, "standard")),
	}
	if t.Definition.Language == "ts" || t.Definition.Language == "js" {
		t.Definition.Language = map[Language]Language{"ts": TypeScript, "js": JavaScript}[t.Definition.Language]
	}
	if len(t.Definition.Parameters) == 0 {
		t.Definition.Parameters = l.InputSchema
	}
	if len(t.Definition.Parameters) == 0 {
		t.Definition.Parameters = l.InputSchemaOld
	}
	var notes []string
	for j, c := range l.Capabilities {
		var text string
		if json.Unmarshal(bytes.TrimSpace(c), &text) != nil {
			return t, nil, bundleError(0, fmt.Sprintf("capabilities[%d]", j), "A capability is a text such as network:https(api.example.com).")
		}
		if text != "internet_access" {
			t.Definition.Capabilities = append(t.Definition.Capabilities, text)
			continue
		}
		hosts := append(append([]string{}, l.AllowedHosts...), l.AllowedHostsOld...)
		if len(hosts) == 0 {
			return t, nil, bundleError(0, fmt.Sprintf("capabilities[%d]", j), "internet_access is no longer used: list each host as network:https(host).")
		}
		for _, h := range hosts {
			t.Definition.Capabilities = append(t.Definition.Capabilities, "network:https("+h+")")
		}
		notes = append(notes, "The old permission internet_access became one capability for each allowed host.")
	}
	if l.Signature != "" {
		t.Signature = &lifecycle.BundleSignature{
			Name: l.Name, Version: first(l.Version), Author: l.Author, SignedAt: first(l.SignedAt, l.SignedAtOld),
			PublicKey: first(l.PublicKey, l.PublicKeyOld), Signature: l.Signature, Legacy: true,
		}
		t.Signature.Version = t.Version
	}
	return t, notes, nil
}
