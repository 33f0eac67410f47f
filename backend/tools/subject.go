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

// draftPrefix is the prefix of the subject id of unsaved code; the definition hash follows.
const draftPrefix = "draft:"

// subject returns the tool as a permission subject.
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

// subjectInfo returns the tool's info for permission. approved is whether its own
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

// loadedKey is the context key of the subject that a run has just loaded, so that permission does
// not query the database again. It is used only until the run has started.
type loadedKey struct{}

type loaded struct {
	id   string
	info permission.SubjectInfo
}

// withSubject returns a context with the subject of the run.
func (e *execution) withSubject(ctx context.Context) context.Context {
	if e.skill != nil && !e.draft {
		return context.WithValue(ctx, loadedKey{}, loaded{e.subject().ID, e.skill.Info()})
	}
	if e.draft || e.version != e.current {
		return ctx
	}
	return context.WithValue(ctx, loadedKey{}, loaded{e.subject().ID, e.tool.subjectInfo(e.tool.approvedHere())})
}

// Subject implements permission.Source for the caller's tools of both kinds, and recently run drafts.
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

// approvedHere reports whether the definition needs no approval, because the user wrote it on this
// installation or a trusted signer signed it.
func (t *Tool) approvedHere() bool {
	return t.Origin == OriginLocal || t.Signature.State == lifecycle.SignatureTrusted
}

// markSuspended sets Suspended for tools with grants that a change of definition suspended.
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

// suspendedTools returns the tools whose grants a change of definition suspended.
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

// rerun starts a run again after its question was answered.
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

// startAgain starts a run and returns as soon as it has started. The run then continues;
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
		case id := <-begun: // it ended immediately
			return id, nil
		default:
			return uuid.Nil, err
		}
	}
}
