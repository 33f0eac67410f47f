package tools

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/permission"
	"helix/backend/storage"
	"helix/backend/wasmtools"
)

// draftPrefix marks the subject id of unsaved code; the rest is its definition hash.
const draftPrefix = "draft:"

// subject is the tool as permission knows it.
func (t *Tool) subject() permission.Subject {
	return permission.Subject{Kind: subjectKind, ID: t.ID.String(), DefinitionHash: t.hash}
}

func (e *execution) subject() permission.Subject {
	s := e.tool.subject()
	if e.skill != nil {
		s = e.skill.Subject()
	}
	if e.draft {
		s.ID = draftPrefix + hex.EncodeToString(e.tool.hash[:])
	}
	return s
}

// subjectInfo is what permission needs to know of a tool; approved says whether its own
// definition counts as approved.
func (t *Tool) subjectInfo(approved bool) permission.SubjectInfo {
	info := permission.SubjectInfo{
		Name: t.Name, State: permission.Active, DefinitionHash: t.hash, Definition: t.definition().document(), Approved: approved,
	}
	if !t.IsEnabled {
		info.State = permission.Disabled
	}
	for _, w := range permission.ParseWants(t.Capabilities) {
		if profileAllows(t.SandboxProfile, w.Capability) {
			info.Declared = append(info.Declared, w)
		}
	}
	if t.Signature.State == lifecycle.SignatureTrusted || t.Signature.State == lifecycle.SignatureUnknown {
		info.Signer = t.Signature.Signer
	}
	return info
}

// loadedKey carries what a run has just loaded of its tool, so that permission need not ask
// the database for the same again. It is used only until the run has begun.
type loadedKey struct{}

type loaded struct {
	id   string
	info permission.SubjectInfo
}

// withSubject is ctx that knows the subject of the run.
func (e *execution) withSubject(ctx context.Context) context.Context {
	if e.skill != nil && !e.draft {
		return context.WithValue(ctx, loadedKey{}, loaded{e.subject().ID, e.skill.Info()})
	}
	if e.draft || e.version != e.current {
		return ctx
	}
	return context.WithValue(ctx, loadedKey{}, loaded{e.subject().ID, e.tool.subjectInfo(e.tool.approvedHere())})
}

// Subject implements permission.Source: the tools of the caller, of either kind, and drafts
// that ran lately.
func (s *Service) Subject(ctx context.Context, kind, id string) (permission.SubjectInfo, error) {
	if l, ok := ctx.Value(loadedKey{}).(loaded); ok && l.id == id {
		return l.info, nil
	}
	if strings.HasPrefix(id, draftPrefix) {
		if info, ok := s.drafts.Get(identity.UserID(ctx).String() + id); ok {
			return info, nil
		}
		return permission.SubjectInfo{}, errNotFound()
	}
	if kind == wasmtools.Kind {
		return s.wasm.SubjectInfo(ctx, id)
	}
	tool, err := uuid.Parse(id)
	if err != nil {
		return permission.SubjectInfo{}, errNotFound()
	}
	var info permission.SubjectInfo
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		t, err := ownTool(tx, tool)
		if err != nil {
			return err
		}
		if t.Signature, err = lifecycle.Trust(tx, s.db, t.owner, t.sig, t.sig.Verify(t.hash, t.Code)); err != nil {
			return err
		}
		info = t.subjectInfo(t.approvedHere())
		return nil
	})
	return info, err
}

// approvedHere: what the user wrote on this installation, and what a trusted signer signed,
// needs no question of its own.
func (t *Tool) approvedHere() bool {
	return t.Origin == OriginLocal || t.Signature.State == lifecycle.SignatureTrusted
}

// markSuspended tells which of the tools have grants that a change of definition put out of
// force.
func (s *Service) markSuspended(tx *storage.Tx, list []Summary) error {
	if len(list) == 0 {
		return nil
	}
	only := ""
	if len(list) == 1 {
		only = list[0].ID.String()
	}
	return s.perm.EachSuspended(tx, subjectKind, only, func(id string) {
		for i := range list {
			if id == list[i].ID.String() {
				list[i].Suspended = true
			}
		}
	})
}

// suspendedTools names the tools whose grants a change of definition put out of force.
func (s *Service) suspendedTools(tx *storage.Tx) ([]uuid.UUID, error) {
	out := []uuid.UUID{}
	seen := map[string]bool{}
	err := s.perm.EachSuspended(tx, subjectKind, "", func(id string) {
		if u, err := uuid.Parse(id); err == nil && !seen[id] {
			out = append(out, u)
		}
		seen[id] = true
	})
	return out, err
}

// rerun starts a run again whose question was answered.
func (s *Service) rerun(ctx context.Context, payload json.RawMessage) (uuid.UUID, error) {
	var p ExecuteParams
	if err := json.Unmarshal(payload, &p); err != nil {
		return uuid.Nil, fault.Internalf(err, "The run cannot be started again.")
	}
	return s.startAgain(ctx, func(ctx context.Context, c Caller) error {
		_, err := s.ExecuteFor(ctx, c, p)
		return err
	})
}

// startAgain starts a run and returns as soon as it has begun. The run goes on after that;
// Close waits for it.
func (s *Service) startAgain(ctx context.Context, run func(context.Context, Caller) error) (uuid.UUID, error) {
	s.mu.Lock()
	if s.life.Err() != nil {
		s.mu.Unlock()
		return uuid.Nil, fault.Unavailablef("Helix is stopping.")
	}
	s.wg.Add(1)
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(s.life, cancel)
	begun := make(chan uuid.UUID, 1)
	ended := make(chan error, 1)
	go func() {
		defer s.wg.Done()
		defer cancel()
		defer stop()
		err := fault.Catch(func() error { return run(ctx, Caller{begun: func(id uuid.UUID) { begun <- id }}) })
		if p := (*fault.Panic)(nil); errors.As(err, &p) {
			s.log.Error("a run that an approval started", "error", err)
		}
		ended <- err
	}()
	select {
	case id := <-begun:
		return id, nil
	case err := <-ended:
		select {
		case id := <-begun: // it ended at once
			return id, nil
		default:
			return uuid.Nil, err
		}
	}
}
