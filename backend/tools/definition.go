package tools

import (
	"encoding/hex"
	"encoding/json"
	"slices"

	"helix/backend/fault"
	"helix/backend/jcs"
	"helix/backend/lifecycle"
)

// defaultParameters is the schema of a tool without parameters.
const defaultParameters = `{"type":"object"}`

// definition is what a tool does: the fields covered by the definition hash, to which grants are
// bound. The name is not included, so renaming a tool does not affect its grants. The description
// is included, because models read it.
type definition struct {
	Description    string          `json:"description"`
	Language       Language        `json:"language"`
	Code           string          `json:"code"`
	Parameters     json.RawMessage `json:"parameters"`
	Capabilities   []string        `json:"capabilities"`
	SandboxProfile Profile         `json:"sandboxProfile"`
	Limits         *Limits         `json:"limits"`
}

// normalize sets defaults and returns the capabilities sorted and without duplicates, so that the
// hash depends neither on their order nor on absent defaults. The receiver's slice is not modified.
func (d definition) normalize() definition {
	if d.Language == "" {
		d.Language = JavaScript
	}
	if d.SandboxProfile == "" {
		d.SandboxProfile = Standard
	}
	if len(d.Parameters) == 0 || string(d.Parameters) == "null" {
		d.Parameters = json.RawMessage(defaultParameters)
	}
	caps := make([]string, 0, len(d.Capabilities))
	caps = append(caps, d.Capabilities...)
	slices.Sort(caps)
	d.Capabilities = slices.Compact(caps)
	if d.Limits != nil && *d.Limits == (Limits{}) {
		d.Limits = nil
	}
	return d
}

// sum returns the definition hash: SHA-256 over the tag and the canonical JSON (RFC 8785).
func (d definition) sum() ([32]byte, error) {
	h, err := jcs.Hash(lifecycle.HashTag, d.normalize())
	if err != nil {
		return h, fault.Invalidf("The definition cannot be hashed: %s", fault.As(err).Message).WithCause(err)
	}
	return h, nil
}

// document returns the definition in the form shown in approvals and diffs.
func (d definition) document() json.RawMessage {
	b, err := json.Marshal(d.normalize())
	if err != nil {
		return json.RawMessage("{}") // invalid parameters; sum has reported them
	}
	return b
}

func (t *Tool) definition() definition {
	return definition{
		Description: t.Description, Language: t.Language, Code: t.Code, Parameters: t.Parameters,
		Capabilities: t.Capabilities, SandboxProfile: t.SandboxProfile, Limits: t.Limits,
	}
}

func (t *Tool) setDefinition(d definition) {
	t.Description, t.Language, t.Code, t.Parameters = d.Description, d.Language, d.Code, d.Parameters
	t.Capabilities, t.SandboxProfile, t.Limits = d.Capabilities, d.SandboxProfile, d.Limits
}

func (b BundleDefinition) definition() definition {
	return definition{
		Description: b.Description, Language: b.Language, Code: b.Code, Parameters: b.Parameters,
		Capabilities: b.Capabilities, SandboxProfile: b.SandboxProfile, Limits: b.Limits,
	}.normalize()
}

func (d definition) bundle(name string) BundleDefinition {
	return BundleDefinition{
		Name: name, Description: d.Description, Language: d.Language, Code: d.Code, Parameters: d.Parameters,
		Capabilities: d.Capabilities, SandboxProfile: d.SandboxProfile, Limits: d.Limits,
	}
}

func hashText(h [32]byte) string { return hex.EncodeToString(h[:]) }
