package discovery

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/openapi"
	"helix/backend/permission"
	"helix/backend/storage"
)

// provider provides the operations of tools as callables. The id of one is the id of the tool and
// the name of the operation, its name is that of the tool and of the operation.
type provider struct{ s *Service }

// Callables returns the provider of operations.
func (s *Service) Callables() callable.Provider { return provider{s} }

// Kind implements callable.Provider.
func (provider) Kind() callable.Kind { return Kind }

// Find implements callable.Provider.
func (p provider) Find(ctx context.Context, id, name string) ([]callable.Info, error) {
	var t *Tool
	first, op, ok := strings.Cut(id, "/")
	if id == "" {
		first, op, ok = strings.Cut(name, ".")
	}
	if !ok {
		return nil, nil
	}
	err := p.s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		if id == "" {
			t, err = toolNamed(tx, first)
			return err
		}
		key, perr := uuid.Parse(first)
		if perr != nil {
			return nil
		}
		if t, err = loadTool(tx, key); fault.Is(err, fault.NotFound) {
			t, err = nil, nil
		}
		return err
	})
	if err != nil || t == nil || t.Status == StatusRevoked {
		return nil, err
	}
	c, ok := t.manifest.capability(op)
	if !ok {
		return nil, nil
	}
	l, err := p.s.open(ctx, t)
	if err != nil {
		return nil, err
	}
	return []callable.Info{t.info(c, l.plans[c.Name])}, nil
}

// List implements callable.Provider. It returns the operations of tools that can run.
func (p provider) List(ctx context.Context) ([]callable.Info, error) {
	out := []callable.Info{}
	tools, err := storage.Result(ctx, p.s.db.Read, func(tx *storage.Tx) ([]*Tool, error) {
		return storage.Collect(tx.Select(`SELECT `+toolColumns+fromTools+`WHERE t.user_id = ? AND `+statusHere+` = 'active' ORDER BY t.name`, identity.UserID(ctx)), scanTool)
	})
	for _, t := range tools {
		l, err := p.s.open(ctx, t)
		if err != nil { // one damaged tool must not hide the others
			p.s.log.Warn("read a tool", "tool", t.Name, "error", err)
			continue
		}
		for _, c := range t.manifest.Capabilities {
			out = append(out, t.info(c, l.plans[c.Name]))
		}
	}
	return out, err
}

func (t *Tool) info(c Capability, plan *openapi.Plan) callable.Info {
	i := callable.Info{
		Ref: callable.Ref{Kind: Kind, ID: t.ID.String() + "/" + c.Name}, Name: t.Name + "." + c.Name, Title: c.Operation, Description: c.Description, Hash: t.DefinitionHash,
		Input: plan.Input, Output: json.RawMessage(outputSchema), Untrusted: true,
		Effects: callable.Effects{ReadOnly: c.Tier == "readOnly", Idempotent: c.Idempotent, Destructive: c.Destructive, OpenWorld: true},
	}
	if wants, err := t.manifest.wants(); err == nil {
		for _, w := range wants {
			i.Capabilities = append(i.Capabilities, w.Text())
		}
	}
	switch t.Status {
	case StatusActive:
		if t.InstallState != installReady {
			i.Blocked = permission.ReasonInactive
		}
	case StatusDisabled:
		i.Blocked = callable.ReasonDisabled
	default:
		i.Blocked = permission.ReasonInactive
	}
	return i
}

const outputSchema = `{"type":"object","required":["status","ok","headers","body"],"properties":{"status":{"type":"integer"},"ok":{"type":"boolean"},"headers":{"type":"object","additionalProperties":{"type":"string"}},"body":{},"truncated":{"type":"boolean"},"blob":{"type":"string"}}}`

// Call implements callable.Provider. A status of 400 or above is an error.
func (p provider) Call(ctx context.Context, ref callable.Ref, r callable.Request) (callable.Result, error) {
	id, op, _ := strings.Cut(ref.ID, "/")
	key, err := uuid.Parse(id)
	if err != nil {
		return callable.Result{}, callable.NotFound(ref)
	}
	t, err := p.s.load(ctx, key)
	if fault.Is(err, fault.NotFound) {
		return callable.Result{}, callable.NotFound(ref)
	}
	if err != nil {
		return callable.Result{}, err
	}
	out, err := p.s.run(ctx, t, op, r)
	if err != nil {
		return callable.Result{}, err
	}
	if !out.Success {
		return callable.Result{}, failed(t.Name+"."+op, out)
	}
	notes := out.Warnings
	if out.NextPage != nil {
		notes = append(notes, "There is another page. Call again with: "+string(out.NextPage))
	}
	return callable.Result{Output: out.Output, Notes: notes, Untrusted: true}, nil
}

// failed converts an error status to an error. The body is part of the message, because it usually says why.
func failed(name string, out RunResult) error {
	var r struct {
		Status int             `json:"status"`
		Body   json.RawMessage `json:"body"`
	}
	if err := json.Unmarshal(out.Output, &r); err != nil {
		return fault.Internalf(err, "The result of %s can't be read.", name)
	}
	kind := fault.Invalid
	switch {
	case r.Status == 404 || r.Status == 410:
		kind = fault.NotFound
	case r.Status == 401 || r.Status == 403:
		kind = fault.Denied
	case r.Status == 409 || r.Status == 412:
		kind = fault.Conflict
	case r.Status == 429:
		kind = fault.Limit
	case r.Status == 408 || r.Status >= 500:
		kind = fault.Unavailable
	}
	text := fmt.Sprintf("%s: the server answered %d", name, r.Status)
	if body := clipText(string(r.Body), 1000); body != "" && body != "null" {
		text += ": " + body
	}
	return fault.New(kind, "%s", text)
}

// Rights implements callable.Provider.
func (p provider) Rights(ctx context.Context, i callable.Info, _ json.RawMessage) (permission.PreviewResult, error) {
	id, _, _ := strings.Cut(i.ID, "/")
	return p.s.o.Permission.Preview(ctx, permission.PreviewParams{Subject: permission.PreviewSubject{Kind: string(Kind), ID: id}})
}

// operationsOf describes the operations of a tool.
func (s *Service) operationsOf(ctx context.Context, t *Tool) ([]OperationInfo, error) {
	l, err := s.open(ctx, t)
	if err != nil {
		return nil, err
	}
	return s.describe(ctx, l.doc, t.Name, l.doc.Operations)
}
