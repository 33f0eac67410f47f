package tools

import (
	"context"
	"encoding/json"
	"strings"
	"unicode"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/storage"
)

// Function is a tool as presented to a model.
type Function struct {
	ToolID      uuid.UUID       `json:"toolId"`
	Name        string          `json:"name"` // tool_ and a slug, unique among the user's tools
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Tokens      int             `json:"tokens"` // see Tool.ApproxTokens
}

// Functions lists the tools that an agent or an MCP client may call: those that are enabled and
// have no suspended grants, in order of creation, which is stable.
func (s *Service) Functions(ctx context.Context) ([]Function, error) {
	out := []Function{}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		var list []Summary
		used := map[string]int{}
		err := tx.Select(`SELECT id, name, description, parameters FROM custom_tools
			WHERE user_id = ? AND is_enabled = 1 AND deleted_at IS NULL ORDER BY created_at, id`, identity.UserID(ctx)).Each(func(row storage.Row) error {
			var f Function
			var parameters string
			if err := row.Scan(&f.ToolID, &f.Name, &f.Description, &parameters); err != nil {
				return err
			}
			f.Parameters = json.RawMessage(parameters)
			f.Name = "tool_" + slug(f.Name)
			if used[f.Name]++; used[f.Name] > 1 {
				f.Name += "_" + itoa(used[f.Name])
			}
			f.Tokens = approxTokens(f.Name, f.Description, f.Parameters)
			out, list = append(out, f), append(list, Summary{ID: f.ToolID})
			return nil
		})
		if err != nil {
			return err
		}
		if err := s.markSuspended(tx, list); err != nil {
			return err
		}
		kept := out[:0]
		for i, f := range out {
			if !list[i].Suspended {
				kept = append(kept, f)
			}
		}
		out = kept
		return nil
	})
	return out, err
}

// approxTokens estimates the cost of a function in a model's context: one token per four bytes of
// its name, description and schema, rounded up. The actual count depends on the model.
func approxTokens(function, description string, parameters []byte) int {
	return (len(function) + len(description) + len(parameters) + 3) / 4
}

// slug converts a name to lower-case ASCII letters, digits and underscores, at most 48 of them.
func slug(name string) string {
	var b strings.Builder
	gap := false
	for _, r := range strings.ToLower(name) {
		switch {
		case r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)):
			if gap && b.Len() > 0 {
				b.WriteByte('_')
			}
			b.WriteRune(r)
			gap = false
		default:
			gap = true
		}
		if b.Len() >= 48 {
			break
		}
	}
	if b.Len() == 0 {
		return "unnamed"
	}
	return b.String()
}
