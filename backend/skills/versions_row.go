package skills

import (
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"

	"helix/backend/fault"
	"helix/backend/storage"
)

const versionColumns = `id, composite_skill_id, version, definition_hash, note, origin, created_at, body`

func scanVersion(from storage.Row) (*Version, error) {
	v := &Version{}
	var hash []byte
	var text string
	err := from.Scan(&v.VersionID, &v.SkillID, &v.Version, &hash, &v.Note, &v.Origin, storage.Time(&v.CreatedAt), &text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NotFoundf("Version not found.")
	}
	if err != nil {
		return nil, err
	}
	v.DefinitionHash = hex.EncodeToString(hash)
	v.Body = json.RawMessage(text)
	return v, nil
}
