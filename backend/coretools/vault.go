package coretools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/storage"
)

const copyName = "vault.copyto"

// holdsName is the folder of a workspace for content read from a vault and waiting to be written.
// Paths in calls cannot refer to it.
const holdsName = "holds"

// maxHold is the maximum size of a copied file, in bytes.
const maxHold = maxWrite

// hold is a file of a vault between the two steps of its copy.
type hold struct {
	From    string `json:"from"`
	To      string `json:"to"`
	Bytes   int64  `json:"bytes"`
	Hash    string `json:"hash"`
	Content []byte `json:"content,omitempty"`
}

func (s *Service) copyTool() callable.Func {
	info := callable.Info{
		Name: copyName, Title: "Copies a file out of the vault.", Effects: callable.Effects{Idempotent: true, Destructive: true},
		Capabilities: []string{"filesystem:read(the file in the vault)", "call(privileged)"},
		Description:  "Copies a file from /vault to /shared or /tmp in two calls, each of which a person allows. The first call takes from and to and returns an operationId. The second call takes the operationId alone and writes the file.",
		Input: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{
			"from":{"type":"string","minLength":1,"maxLength":4096,"description":"A file below /vault."},
			"to":{"type":"string","minLength":1,"maxLength":4096,"description":"A path below /shared or /tmp."},
			"operationId":{"type":"string","format":"uuid","description":"What the first call returned."}},
			"oneOf":[{"required":["from","to"],"not":{"required":["operationId"]}},{"required":["operationId"],"maxProperties":1}]}`),
		Output: output(`"operationId","state","from","to","bytes","hash"`, `"operationId":{"type":"string"},"state":{"enum":["held","copied"]},"from":{"type":"string"},"to":{"type":"string"},
			"bytes":{"type":"integer"},"hash":{"type":"string"},"undoToken":{"type":"string"}`),
	}
	return callable.Func{Info: info, Run: callable.Typed(func(ctx context.Context, c callable.Request, in struct{ From, To, OperationID string }) (any, error) {
		if in.OperationID == "" {
			return s.hold(ctx, &c, in.From, in.To)
		}
		return s.release(ctx, &c, in.OperationID)
	})}
}

// hold is the first step. It reads the vault and writes nothing that a call can read.
func (s *Service) hold(ctx context.Context, c *callable.Request, from, to string) (any, error) {
	p, err := parsePath(from)
	if err == nil && p.area != vault {
		err = refusedPath("Only files of /vault are copied like this. Read %s with file.read.", p.text)
	}
	if err != nil {
		return nil, err
	}
	target, err := writable(to)
	if err != nil {
		return nil, err
	}
	r, err := s.read(ctx, c, p.text, false, permission.Privileged)
	if err != nil {
		return nil, err
	}
	defer r.end()
	content, err := r.files.Read(r.real, maxHold)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	h := hold{From: p.text, To: target.text, Bytes: int64(len(content)), Hash: hex.EncodeToString(sum[:]), Content: content}
	id := storage.NewID()
	if c.Key != "" { // each attempt is the same operation
		id = uuid.NewSHA1(c.Caller.Run, []byte(changeID(c)))
	}
	if err := s.saveHold(ctx, id, h); err != nil {
		return nil, fileError(err)
	}
	return h.result(id, "held", ""), nil
}

func (s *Service) saveHold(ctx context.Context, id uuid.UUID, h hold) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	w, err := s.workspace(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(w.dir, holdsName), 0o700); err != nil {
		return err
	}
	root, err := w.open(holdsName)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.WriteFile(id.String(), text, 0o600)
}

func (h *hold) result(id uuid.UUID, state, token string) map[string]any {
	out := map[string]any{"operationId": id, "state": state, "from": h.From, "to": h.To, "bytes": h.Bytes, "hash": h.Hash}
	if token != "" {
		out["undoToken"] = token
	}
	return out
}

// held returns the content held for an operation of the user in ctx.
func (s *Service) held(ctx context.Context, id string) (h hold, op uuid.UUID, err error) {
	gone := fault.NotFoundf("Operation not found. It ends after a day. Start again with from and to.")
	if op, err = uuid.Parse(id); err != nil {
		return h, op, gone
	}
	w, err := s.workspace(ctx)
	if err != nil {
		return h, op, err
	}
	root, err := w.open(holdsName)
	if err != nil {
		return h, op, gone
	}
	defer root.Close()
	text, err := root.ReadFile(op.String())
	if err != nil || json.Unmarshal(text, &h) != nil {
		return h, op, gone
	}
	return h, op, nil
}

// copyInfo returns the subject of one operation. It is decided separately, regardless of
// earlier permissions.
func (s *Service) copyInfo(ctx context.Context, id string) (permission.SubjectInfo, error) {
	h, op, err := s.held(ctx, strings.TrimPrefix(id, copyName+" "))
	if err != nil {
		return permission.SubjectInfo{}, err
	}
	sub := copySubject(op, h)
	doc, err := json.Marshal(hold{From: h.From, To: h.To, Bytes: h.Bytes, Hash: h.Hash})
	return permission.SubjectInfo{
		Name: fmt.Sprintf("Copy %s (%d bytes) to %s", h.From, h.Bytes, h.To), State: permission.Active, DefinitionHash: sub.DefinitionHash, Definition: doc, Approved: true,
	}, err
}

func copySubject(op uuid.UUID, h hold) permission.Subject {
	sub := callable.BuiltinSubject(copyName + " " + op.String())
	text, _ := json.Marshal([]any{sub.ID, h.From, h.To, h.Hash}) // cannot fail: strings
	sub.DefinitionHash = sha256.Sum256(text)
	return sub
}

// release is the second step. It writes what the first one has read, and does not read the vault.
func (s *Service) release(ctx context.Context, c *callable.Request, id string) (any, error) {
	h, op, err := s.held(ctx, id)
	if err != nil {
		return nil, err
	}
	p, err := writable(h.To)
	if err != nil {
		return nil, err
	}
	pass, err := s.o.Gate.Pass(ctx, c, callable.Reach{
		Name: copyName, Subject: copySubject(op, h), Tier: permission.Privileged, Action: audit.ResourceAccess,
		Details: map[string]any{"operation": op, "from": h.From, "to": h.To, "hash": h.Hash},
	})
	if err != nil {
		return nil, err
	}
	defer pass.End()
	out, err := s.put(ctx, c, p, maxWrite, func([]byte, string, *Changed) ([]byte, error) {
		if int64(len(h.Content)) != h.Bytes {
			return nil, fault.Conflictf("This operation is complete: %s has been copied.", h.From)
		}
		return h.Content, nil
	})
	if err != nil {
		return nil, err
	}
	token := out.(*Changed).UndoToken
	h.Content = nil // another attempt of this call needs the other fields
	if err := s.saveHold(ctx, op, h); err != nil {
		s.o.Logger.Warn("the content of a finished copy is kept for a day", "err", err)
	}
	return h.result(op, "copied", token), nil
}
