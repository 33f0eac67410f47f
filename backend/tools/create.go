package tools

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/storage"
)

// CreateParams describes a new tool.
type CreateParams struct {
	Name           string          `json:"name"` // 1..64 letters, digits, spaces, "_", "-" or "."
	Code           string          `json:"code"` // at most 256 KiB
	Description    string          `json:"description,omitempty"`
	Language       Language        `json:"language,omitempty"`       // default javascript
	Parameters     json.RawMessage `json:"parameters,omitempty"`     // JSON Schema; default {"type":"object"}
	Capabilities   []string        `json:"capabilities,omitempty"`   // at most 32
	SandboxProfile Profile         `json:"sandboxProfile,omitempty"` // default standard
	Limits         *Limits         `json:"limits,omitempty"`
	Samples        []Sample        `json:"samples,omitempty"`
	Tags           []string        `json:"tags,omitempty"` // at most 16 of 64 characters
	Icon           string          `json:"icon,omitempty"`
	Visibility     Visibility      `json:"visibility,omitempty"` // default private
	Version        string          `json:"version,omitempty"`    // semantic version; default 1.0.0
}

// CreateResult contains the new tool and the results of the static checks.
type CreateResult struct {
	Tool       Tool       `json:"tool"`
	Validation Validation `json:"validation"`
}

// Create stores a new tool of the caller and enables it. If the static checks find errors, the
// error is Invalid with the Validation as details, and nothing is stored. If the name is taken, the
// error is a Conflict.
func (s *Service) Create(ctx context.Context, p CreateParams) (CreateResult, error) {
	t := &Tool{
		ID: storage.NewID(), owner: identity.UserID(ctx), Mine: true, IsEnabled: true, Origin: OriginLocal,
		Name: p.Name, Icon: p.Icon, Visibility: p.Visibility, Version: p.Version, Samples: p.Samples, Tags: p.Tags,
	}
	if t.Version == "" {
		t.Version = lifecycle.FirstVersion
	}
	if t.Visibility == "" {
		t.Visibility = Private
	}
	if err := checkFields(t); err != nil {
		return CreateResult{}, err
	}
	ex := s.examineAll(ctx, definition{
		Description: p.Description, Language: p.Language, Code: p.Code, Parameters: p.Parameters,
		Capabilities: p.Capabilities, SandboxProfile: p.SandboxProfile, Limits: p.Limits,
	})
	if err := saveError(ex.result); err != nil {
		return CreateResult{}, err
	}
	t.setDefinition(ex.def)
	t.hash, t.DefinitionHash = ex.hash, hashText(ex.hash)
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		if err := s.add(tx, t, ""); err != nil {
			return err
		}
		return s.complete(tx, t)
	})
	if err != nil {
		return CreateResult{}, err
	}
	return CreateResult{Tool: *t, Validation: ex.result}, nil
}

// checkFields validates and cleans all fields that are not part of the definition.
func checkFields(t *Tool) (err error) {
	if t.Name, err = lifecycle.CheckName("tool", t.Name); err != nil {
		return err
	}
	if err := lifecycle.CheckVersion(t.Version); err != nil {
		return err
	}
	if err := lifecycle.CheckEnum("visibility", t.Visibility); err != nil {
		return err
	}
	if err := checkIcon(t.Icon); err != nil {
		return err
	}
	if err := lifecycle.CheckText("author", t.Author, maxAuthor); err != nil {
		return err
	}
	if t.Samples, err = checkSamples(t.Samples); err != nil {
		return err
	}
	t.Tags, err = cleanTags(t.Tags)
	return err
}

func (s *Service) add(tx *storage.Tx, t *Tool, note string) error {
	if err := s.kind.CheckCount(tx, t.owner, s.o.maxTools()); err != nil {
		return err
	}
	if err := s.checkNameFree(tx, t); err != nil {
		return err
	}
	t.CreatedAt, t.UpdatedAt = tx.Now, tx.Now
	if err := insertTool(tx, t); err != nil {
		return err
	}
	if err := insertVersion(tx, t, note); err != nil {
		return err
	}
	return s.kind.Changed(tx, t.item(), "created", map[string]any{
		"name": t.Name, "version": t.Version, "definitionHash": t.DefinitionHash, "origin": t.Origin, "capabilities": t.Capabilities,
	})
}

// NameTaken is the detail of the conflict when another tool has the name.
type NameTaken struct {
	ToolID  uuid.UUID `json:"toolId"`
	Name    string    `json:"name"`
	Version string    `json:"version"`
}

// checkNameFree returns a conflict if another tool of the user has the name.
func (s *Service) checkNameFree(tx *storage.Tx, t *Tool) error {
	return s.kind.CheckName(tx, t.item(), func(other lifecycle.Item) any { return NameTaken{other.ID, other.Name, other.Version} })
}
