package skills

import (
	"context"
	"encoding/json"
	"strings"

	"helix/backend/fault"
	"helix/backend/schema"
)

// checkValue validates a value against a schema. The error for a mismatch is Invalid, names the
// first invalid location, prefixed with lead, and has all of them as details.
func checkValue(ctx context.Context, cache *schema.Cache, raw json.RawMessage, v any, lead string) error {
	s, err := cache.Compile(raw)
	if err != nil {
		return err
	}
	found, err := schema.Mismatches(s.Check(ctx, v))
	if err != nil || len(found) == 0 {
		return err
	}
	where := strings.TrimPrefix(lead+found[0].Path, "/")
	if where == "" {
		where = "the input"
	}
	return fault.Invalidf("%s: %s", where, found[0].Message).WithDetails(schema.Findings{Errors: found})
}
