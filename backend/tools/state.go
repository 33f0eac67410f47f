package tools

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/sandbox"
	"helix/backend/storage"
)

// StateEntry is one value or file that a tool has stored.
type StateEntry struct {
	Key       string    `json:"key"` // for a file: "file:" and its path in the tool's folder
	SizeBytes int64     `json:"sizeBytes"`
	UpdatedAt time.Time `json:"updatedAt"`
	Preview   string    `json:"preview"` // the first 200 characters
}

// StateResult is the state of a tool and its quota.
type StateResult struct {
	Entries    []StateEntry `json:"entries"`
	UsedBytes  int64        `json:"usedBytes"`
	QuotaBytes int64        `json:"quotaBytes"`
}

// StateClearParams identifies the tool and, if Key is set, the one entry to clear.
type StateClearParams struct {
	ToolID uuid.UUID `json:"toolId"`
	Key    string    `json:"key,omitempty"`
}

// StateClearResult contains the token that restores the cleared state within a minute.
type StateClearResult struct {
	Cleared   int    `json:"cleared"`
	UndoToken string `json:"undoToken"`
}

// StateRestoreParams undoes a clearing.
type StateRestoreParams struct {
	UndoToken string `json:"undoToken"`
}

// Limits of a tool's state.
const (
	defaultQuota = int64(1) << 20
	maxStateKey  = 256
	undoFor      = time.Minute
)

// quotaOf returns the quota that a tool's capabilities request, and the resource that specifies it.
func quotaOf(caps []string) (int64, string) {
	for _, w := range permission.ParseWants(caps) {
		if w.Capability == permission.State {
			return min(permission.StateBytes(w.Resource), permission.MaxProgramState), w.Resource
		}
	}
	return defaultQuota, "1MiB"
}

func (e *execution) quota() int64 { q, _ := quotaOf(e.tool.Capabilities); return q }

func quotaError(need, quota int64) error {
	return fault.Limitf("The tool's state would have %d bytes; %d are allowed. Nothing was changed.", need, quota).
		WithDetails(map[string]int64{"need": need, "quota": quota})
}

// stateTable returns the table that stores the values, and its column for the owner.
func (e *execution) stateTable() (table, owner string) {
	if e.skill != nil {
		return "skill_state", "skill_id"
	}
	return "custom_tool_state", "custom_tool_id"
}

// stateBytes returns the total size of the stored values.
func (e *execution) stateBytes(tx *storage.Tx) (n int64, err error) {
	table, owner := e.stateTable()
	err = tx.QueryRow(`SELECT coalesce(sum(size_bytes), 0) FROM `+table+` WHERE `+owner+` = ? AND user_id = ?`, e.tool.ID, e.user).Scan(&n)
	return n, err
}

func (h *host) allowState(ctx context.Context, c *call) error {
	_, resource := quotaOf(h.e.tool.Capabilities)
	return c.allow(ctx, permission.State, resource, audit.ResourceAccess)
}

func checkKey(key string) error {
	if key == "" || len(key) > maxStateKey || strings.ContainsRune(key, 0) {
		return fault.Invalidf("A state key has 1 to %d bytes.", maxStateKey)
	}
	return nil
}

func (h *host) stateGet(ctx context.Context, c *call, p sandbox.KeyRequest) (sandbox.StateResponse, error) {
	var out sandbox.StateResponse
	if err := checkKey(p.Key); err != nil {
		return out, err
	}
	if err := h.allowState(ctx, c); err != nil {
		return out, err
	}
	if h.e.draft {
		h.mu.Lock()
		defer h.mu.Unlock()
		out.Value, out.Found = h.memory[p.Key]
		return out, nil
	}
	table, owner := h.e.stateTable()
	return out, h.e.s.db.Read(ctx, func(tx *storage.Tx) error {
		var v string
		err := tx.QueryRow(`SELECT state_value FROM `+table+` WHERE `+owner+` = ? AND user_id = ? AND state_key = ?`, h.e.tool.ID, h.e.user, p.Key).Scan(&v)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		out.Found, out.Value = err == nil, json.RawMessage(v)
		return err
	})
}

func (h *host) stateSet(ctx context.Context, c *call, p sandbox.StateSetRequest) (struct{}, error) {
	none := struct{}{}
	if err := checkKey(p.Key); err != nil {
		return none, err
	}
	if len(p.Value) == 0 {
		p.Value = json.RawMessage("null")
	}
	if err := h.allowState(ctx, c); err != nil {
		return none, err
	}
	size := int64(len(p.Key) + len(p.Value))
	if h.e.draft {
		h.mu.Lock()
		defer h.mu.Unlock()
		need := size
		for k, v := range h.memory {
			if k != p.Key {
				need += int64(len(k) + len(v))
			}
		}
		if need > h.e.quota() {
			return none, quotaError(need, h.e.quota())
		}
		h.memory[p.Key] = p.Value
		return none, nil
	}
	table, owner := h.e.stateTable()
	return none, h.e.s.db.Write(ctx, func(tx *storage.Tx) error {
		// Inside the transaction, as for files: the quota is a sum that two concurrent writers
		// could exceed together.
		files, err := folderSize(h.e.folder())
		if err != nil {
			return err
		}
		used, err := h.e.stateBytes(tx)
		if err != nil {
			return err
		}
		var old int64
		err = tx.QueryRow(`SELECT size_bytes FROM `+table+` WHERE `+owner+` = ? AND user_id = ? AND state_key = ?`, h.e.tool.ID, h.e.user, p.Key).Scan(&old)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if need := used + files - old + size; need > h.e.quota() {
			return quotaError(need, h.e.quota())
		}
		_, err = tx.Exec(`INSERT INTO `+table+` (`+owner+`, user_id, state_key, state_value, size_bytes, updated_at) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (`+owner+`, user_id, state_key) DO UPDATE SET state_value = excluded.state_value, size_bytes = excluded.size_bytes, updated_at = excluded.updated_at`,
			h.e.tool.ID, h.e.user, p.Key, p.Value, size, tx.Now)
		return err
	})
}

func (h *host) stateDelete(ctx context.Context, c *call, p sandbox.KeyRequest) (sandbox.DeletedResponse, error) {
	var out sandbox.DeletedResponse
	if err := checkKey(p.Key); err != nil {
		return out, err
	}
	if err := h.allowState(ctx, c); err != nil {
		return out, err
	}
	if h.e.draft {
		h.mu.Lock()
		defer h.mu.Unlock()
		_, out.Deleted = h.memory[p.Key]
		delete(h.memory, p.Key)
		return out, nil
	}
	table, owner := h.e.stateTable()
	return out, h.e.s.db.Write(ctx, func(tx *storage.Tx) error {
		r, err := tx.Exec(`DELETE FROM `+table+` WHERE `+owner+` = ? AND user_id = ? AND state_key = ?`, h.e.tool.ID, h.e.user, p.Key)
		if err != nil {
			return err
		}
		n, err := r.RowsAffected()
		out.Deleted = n > 0
		return err
	})
}

func (h *host) stateKeys(ctx context.Context, c *call, _ struct{}) (sandbox.KeysResponse, error) {
	out := sandbox.KeysResponse{Keys: []string{}}
	if err := h.allowState(ctx, c); err != nil {
		return out, err
	}
	if h.e.draft {
		h.mu.Lock()
		defer h.mu.Unlock()
		for k := range h.memory {
			out.Keys = append(out.Keys, k)
		}
		slices.Sort(out.Keys)
		return out, nil
	}
	table, owner := h.e.stateTable()
	return out, h.e.s.db.Read(ctx, func(tx *storage.Tx) error {
		var err error
		out.Keys, err = storage.Collect(tx.Select(`SELECT state_key FROM `+table+` WHERE `+owner+` = ? AND user_id = ? ORDER BY state_key`, h.e.tool.ID, h.e.user), storage.RowTo[string])
		return err
	})
}

// filePrefix is the prefix of keys of files in a tool's state.
const filePrefix = "file:"

// State lists the values and files that a tool has stored.
func (s *Service) State(ctx context.Context, p ToolID) (StateResult, error) {
	out := StateResult{Entries: []StateEntry{}}
	user := identity.UserID(ctx)
	var folder string
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		t, err := ownTool(tx, p.ToolID)
		if err != nil {
			return err
		}
		out.QuotaBytes, _ = quotaOf(t.Capabilities)
		folder = StateFolder(s.o.StateDir, t.subject())
		return tx.Select(`SELECT state_key, size_bytes, updated_at, substr(state_value, 1, 200) FROM custom_tool_state
			WHERE custom_tool_id = ? AND user_id = ? ORDER BY state_key LIMIT 10000`, t.ID, user).Each(func(row storage.Row) error {
			var e StateEntry
			if err := row.Scan(&e.Key, &e.SizeBytes, storage.Time(&e.UpdatedAt), &e.Preview); err != nil {
				return err
			}
			out.UsedBytes += e.SizeBytes
			out.Entries = append(out.Entries, e)
			return nil
		})
	})
	if err != nil || folder == "" {
		return out, err
	}
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() {
			return nil
		}
		rel, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		out.UsedBytes += info.Size()
		out.Entries = append(out.Entries, StateEntry{Key: filePrefix + filepath.ToSlash(rel), SizeBytes: info.Size(), UpdatedAt: info.ModTime().UTC()})
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return out, err
}

// clearing is state that was cleared and can be restored.
type clearing struct {
	user, tool uuid.UUID
	rows       []stateRow
	files      []stateFile
	until      time.Time
}

type stateRow struct {
	key, value string
	size       int64
	at         int64
}

type stateFile struct {
	rel  string
	data []byte
}

// StateClear removes one entry or all of a tool's state. StateRestore restores it within a minute.
func (s *Service) StateClear(ctx context.Context, p StateClearParams) (StateClearResult, error) {
	var out StateClearResult
	user := identity.UserID(ctx)
	cl := &clearing{user: user, tool: p.ToolID, until: time.Now().Add(undoFor)}
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		t, err := ownTool(tx, p.ToolID)
		if err != nil {
			return err
		}
		if err := cl.takeRows(tx, t.ID, p.Key); err != nil {
			return err
		}
		if err := cl.takeFiles(StateFolder(s.o.StateDir, t.subject()), p.Key); err != nil {
			return err
		}
		s.announce(tx, t.ID, "state")
		return audit.Append(tx, audit.Entry{Action: "tool.state_cleared", SubjectKind: subjectKind, SubjectID: t.ID.String(),
			Details: map[string]any{"values": len(cl.rows), "files": len(cl.files), "all": p.Key == ""}})
	})
	if err != nil {
		return out, err
	}
	out.Cleared = len(cl.rows) + len(cl.files)
	if out.Cleared > 0 {
		out.UndoToken = uuid.NewString()
		s.sweep()
		s.mu.Lock()
		s.undo[out.UndoToken] = cl
		s.mu.Unlock()
	}
	return out, nil
}

func (cl *clearing) takeRows(tx *storage.Tx, tool uuid.UUID, key string) error {
	var err error
	cl.rows, err = storage.Collect(tx.Select(`DELETE FROM custom_tool_state WHERE custom_tool_id = ? AND user_id = ? AND (?3 = '' OR state_key = ?3)
		RETURNING state_key, state_value, size_bytes, updated_at`, tool, cl.user, key), func(row storage.Row) (r stateRow, err error) {
		err = row.Scan(&r.key, &r.value, &r.size, &r.at)
		return r, err
	})
	return err
}

func (cl *clearing) takeFiles(folder, key string) error {
	only, isFile := strings.CutPrefix(key, filePrefix)
	if folder == "" || key != "" && !isFile {
		return nil
	}
	root, err := os.OpenRoot(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	var list []string
	if err := fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && (key == "" || path == only) {
			list = append(list, path)
		}
		return err
	}); err != nil {
		return err
	}
	for _, path := range list {
		data, err := root.ReadFile(path)
		if err != nil {
			return err
		}
		if err := root.Remove(path); err != nil {
			return err
		}
		cl.files = append(cl.files, stateFile{path, data})
	}
	return nil
}

// StateRestore undoes a clearing. Entries that the tool has stored since under the same keys are kept.
func (s *Service) StateRestore(ctx context.Context, p StateRestoreParams) (StateClearResult, error) {
	var out StateClearResult
	s.sweep()
	s.mu.Lock()
	cl := s.undo[p.UndoToken]
	if cl != nil && cl.user == identity.UserID(ctx) {
		delete(s.undo, p.UndoToken)
	} else {
		cl = nil
	}
	s.mu.Unlock()
	if cl == nil {
		return out, fault.NotFoundf("Nothing left to undo.")
	}
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		t, err := ownTool(tx, cl.tool)
		if err != nil {
			return err
		}
		for _, r := range cl.rows {
			if _, err := tx.Exec(`INSERT INTO custom_tool_state (custom_tool_id, user_id, state_key, state_value, size_bytes, updated_at) VALUES (?, ?, ?, ?, ?, ?)
				ON CONFLICT (custom_tool_id, user_id, state_key) DO NOTHING`, cl.tool, cl.user, r.key, r.value, r.size, r.at); err != nil {
				return err
			}
		}
		if folder := StateFolder(s.o.StateDir, t.subject()); folder != "" && len(cl.files) > 0 {
			if err := putBack(folder, cl.files); err != nil {
				return err
			}
		}
		s.announce(tx, t.ID, "state")
		return audit.Append(tx, audit.Entry{Action: "tool.state_restored", SubjectKind: subjectKind, SubjectID: t.ID.String(),
			Details: map[string]any{"values": len(cl.rows), "files": len(cl.files)}})
	})
	out.Cleared = len(cl.rows) + len(cl.files)
	return out, err
}

func putBack(folder string, files []stateFile) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range files {
		if _, err := root.Lstat(f.rel); err == nil {
			continue
		}
		if dir := filepath.Dir(f.rel); dir != "." {
			if err := root.MkdirAll(dir, 0o700); err != nil {
				return err
			}
		}
		if err := root.WriteFile(f.rel, f.data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// sweep drops expired undo data and reviews.
func (s *Service) sweep() {
	now := time.Now()
	s.wasm.Sweep()
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, c := range s.undo {
		if now.After(c.until) {
			delete(s.undo, k)
		}
	}
	for k, r := range s.reviews {
		if now.After(r.until) {
			delete(s.reviews, k)
		}
	}
}
