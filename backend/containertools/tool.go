package containertools

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/container"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/jcs"
	"helix/backend/permission"
	"helix/backend/schema"
	"helix/backend/storage"
)

// The states of a tool.
const (
	StatusPending  = "pending_approval"
	StatusActive   = "active"
	StatusDisabled = "disabled"
	StatusRevoked  = "revoked"
)

// The answers to the question whether a tool is approved.
const (
	choiceApprove = "approve"
	choiceReject  = "reject"
)

// Definition is what a tool runs. A change of any part needs another approval.
type Definition struct {
	Name           string           `json:"name"`
	Description    string           `json:"description"`
	Image          string           `json:"image"`   // as it was named
	ImageID        string           `json:"imageId"` // what runs
	Digest         string           `json:"digest"`  // in its repository; "": imported
	Argv           []string         `json:"argv"`    // empty: what the image starts
	Input          json.RawMessage  `json:"input"`   // JSON Schema of the parameters
	Output         json.RawMessage  `json:"output"`  // JSON Schema of standard output; null: any text
	Limits         container.Limits `json:"limits"`
	TimeoutSeconds int              `json:"timeoutSeconds"`
	Hosts          []string         `json:"hosts,omitempty"`      // that it may reach over TLS: name[:port], or localhost:port without it
	StateBytes     int64            `json:"stateBytes,omitempty"` // quota of files in /data that stay between runs; 0: none
	Secrets        []string         `json:"secrets,omitempty"`    // names of secrets that Helix may fill into its requests
}

// Tool is a tool as stored.
type Tool struct {
	ID             uuid.UUID  `json:"toolId"`
	Name           string     `json:"name"`
	Status         string     `json:"status"`
	Definition     Definition `json:"definition"`
	DefinitionHash string     `json:"definitionHash"`
	CreatedAt      time.Time  `json:"createdAt"`
	UpdatedAt      time.Time  `json:"updatedAt"`
	ApprovedAt     *time.Time `json:"approvedAt,omitempty"`

	hash [32]byte
	user uuid.UUID
}

const toolColumns = `id, user_id, name, status, definition, definition_hash, created_at, updated_at, approved_at FROM container_tools`

func scanTool(row storage.Row) (*Tool, error) {
	t := &Tool{}
	var hash []byte
	err := row.Scan(&t.ID, &t.user, &t.Name, &t.Status, storage.JSON(&t.Definition), &hash, storage.Time(&t.CreatedAt), storage.Time(&t.UpdatedAt), storage.TimePtr(&t.ApprovedAt))
	copy(t.hash[:], hash)
	t.DefinitionHash = hex.EncodeToString(t.hash[:])
	return t, err
}

func errNoTool() error {
	return fault.NotFoundf("There is no such container tool. To list them: helix container tools")
}

// load returns a tool of the user by id or name.
func load(tx *storage.Tx, id *uuid.UUID, name string) (*Tool, error) {
	where, key := ` WHERE user_id = ? AND name = ? AND status <> 'revoked'`, any(name)
	if id != nil {
		where, key = ` WHERE user_id = ? AND id = ?`, *id
	}
	t, err := scanTool(tx.QueryRow(`SELECT `+toolColumns+where, identity.UserID(tx.Context()), key))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoTool()
	}
	return t, err
}

// tools returns the tools of the user that are not revoked, by name.
func (s *Service) tools(ctx context.Context) (list []*Tool, err error) {
	return storage.Result(ctx, s.db.Read, func(tx *storage.Tx) ([]*Tool, error) {
		return storage.Collect(tx.Select(`SELECT `+toolColumns+` WHERE user_id = ? AND status <> 'revoked' ORDER BY name`, identity.UserID(ctx)), scanTool)
	})
}

// SecretUsers calls add with the name and the user of each secret that the caller's tools may send.
func (s *Service) SecretUsers(ctx context.Context, add func(secret, user string)) error {
	list, err := s.tools(ctx)
	for _, t := range list {
		for _, name := range t.Definition.Secrets {
			add(name, "container tool "+t.Name)
		}
	}
	return err
}

// ToolsResult lists tools.
type ToolsResult struct {
	Tools []*Tool `json:"tools"`
}

// Tools lists the container tools that are not revoked.
func (s *Service) Tools(ctx context.Context, _ struct{}) (ToolsResult, error) {
	list, err := s.tools(ctx)
	return ToolsResult{list}, err
}

// AddParams describe a tool.
type AddParams struct {
	Name           string           `json:"name"`
	Description    string           `json:"description,omitempty"`
	Image          string           `json:"image"`          // reference or id of an image on this computer
	Argv           []string         `json:"argv,omitempty"` // default: what the image starts
	Input          json.RawMessage  `json:"input,omitempty"`
	Output         json.RawMessage  `json:"output,omitempty"`
	Limits         container.Limits `json:"limits,omitempty"`
	TimeoutSeconds int              `json:"timeoutSeconds,omitempty"` // 1..600, default 30
	Hosts          []string         `json:"hosts,omitempty"`          // such as api.example.com, *.example.com:8443 or localhost:3000
	StateBytes     int64            `json:"stateBytes,omitempty"`     // quota of files that stay between runs, in /data; default: none
	Secrets        []string         `json:"secrets,omitempty"`        // used as {{secret:NAME}} in requests through HELIX_EGRESS_URL
}

var namePattern = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)

const anyObject = `{"type":"object"}`

// define checks the parameters and resolves the image.
func (s *Service) define(ctx context.Context, p *AddParams) (d Definition, err error) {
	if !namePattern.MatchString(p.Name) {
		return d, fault.InvalidField("name", fault.CodeSyntax, "A name begins with a small letter and has up to 64 small letters, digits, _ and -.")
	}
	if len(p.Description) > 2000 || len(p.Argv) > 256 || len(strings.Join(p.Argv, "")) > 64<<10 || len(p.Input)+len(p.Output) > 256<<10 {
		return d, fault.Limitf("The definition is too large.")
	}
	for _, a := range p.Argv {
		if strings.ContainsRune(a, 0) {
			return d, fault.InvalidField("argv", fault.CodeSyntax, "A command can't contain a null character.")
		}
	}
	p.TimeoutSeconds = cmp.Or(p.TimeoutSeconds, 30)
	if p.TimeoutSeconds < 1 || p.TimeoutSeconds > 600 {
		return d, fault.InvalidField("timeoutSeconds", fault.CodeRange, "The time limit must be from 1 to 600 seconds.")
	}
	if p.Limits, err = p.Limits.WithDefaults(); err != nil {
		return d, err
	}
	if p.StateBytes != 0 && (p.StateBytes < 1<<20 || p.StateBytes > maxState) {
		return d, fault.InvalidField("stateBytes", fault.CodeRange, "The quota of stored data must be from 1 MiB to 16 GiB.")
	}
	if len(p.Input) == 0 || string(p.Input) == "null" {
		p.Input = json.RawMessage(anyObject)
	}
	if len(p.Output) == 0 {
		p.Output = json.RawMessage("null")
	}
	for field, raw := range map[string]json.RawMessage{"input": p.Input, "output": p.Output} {
		if string(raw) == "null" {
			continue
		}
		if _, err := schema.Compile(raw); err != nil {
			return d, fault.InvalidField(field, fault.CodeSyntax, "The schema isn't valid: %s", fault.As(err).Message)
		}
	}
	i, err := s.engine.Image(ctx, p.Image)
	if err != nil {
		return d, err
	}
	if p.Argv == nil {
		p.Argv = []string{}
	}
	d = Definition{p.Name, p.Description, p.Image, i.ID, i.Digest, p.Argv, p.Input, p.Output, p.Limits, p.TimeoutSeconds, p.Hosts, p.StateBytes, p.Secrets}
	_, err = d.wants()
	return d, err
}

// Add stores a tool, or another definition of the tool with that name, and asks for its approval. The image
// must be on this computer; the tool stays with exactly that image.
func (s *Service) Add(ctx context.Context, p AddParams) (*Tool, error) {
	d, err := s.define(ctx, &p)
	if err != nil {
		return nil, err
	}
	hash, err := jcs.Hash("helix-container-v1", d)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	var t *Tool
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		old, err := load(tx, nil, d.Name)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		if old != nil && old.hash == hash {
			t = old
			return nil
		}
		id := storage.NewID()
		if old != nil {
			id = old.ID
			if err := s.o.Permission.CloseTx(tx, id, "", "", uuid.Nil); err != nil {
				return err
			}
			if _, err := tx.Exec(`UPDATE container_tools SET status = 'pending_approval', definition = ?, definition_hash = ?, updated_at = ? WHERE id = ?`, json.RawMessage(raw), hash, tx.Now, id); err != nil {
				return err
			}
			if err := s.o.Permission.SubjectChanged(tx, string(Kind), id.String(), false); err != nil {
				return err
			}
			tx.AfterCommit(func() { s.endRuns(id, "The tool was changed.") })
		} else {
			var n int
			if err := tx.QueryRow(`SELECT count(*) FROM container_tools WHERE user_id = ? AND status <> 'revoked'`, identity.UserID(ctx)).Scan(&n); err != nil {
				return err
			}
			if n >= maxTools {
				return fault.Limitf("There can be %d container tools. Revoke one first.", maxTools)
			}
			if _, err := tx.Exec(`INSERT INTO container_tools (id, user_id, name, status, definition, definition_hash, created_at, updated_at) VALUES (?, ?, ?, 'pending_approval', ?, ?, ?, ?)`,
				id, identity.UserID(ctx), d.Name, json.RawMessage(raw), hash, tx.Now, tx.Now); err != nil {
				return err
			}
		}
		if t, err = load(tx, &id, ""); err != nil {
			return err
		}
		if err := s.ask(tx, t); err != nil {
			return err
		}
		return audit.Append(tx, audit.Entry{Action: "tool.added", SubjectKind: string(Kind), SubjectID: id.String(), Details: map[string]any{"name": d.Name, "image": d.Image, "imageId": d.ImageID, "definitionHash": t.DefinitionHash}})
	})
	return t, err
}

// wants returns the permissions that the definition needs.
func (d *Definition) wants() ([]permission.Want, error) {
	list := []permission.Want{{Capability: permission.Call, Resource: permission.SideEffecting.String()}}
	if len(d.Hosts) > 32 || len(d.Secrets) > 32 || len(d.Secrets) > 0 && len(d.Hosts) == 0 {
		return nil, fault.Invalidf("A tool can have up to 32 hosts and 32 secrets, and needs a host for a secret.")
	}
	for _, h := range d.Hosts {
		list = append(list, wantHost(h))
	}
	for _, name := range d.Secrets {
		list = append(list, permission.Want{Capability: permission.Secret, Resource: name})
	}
	for i := range list {
		var err error
		if list[i].Resource, err = permission.Normalize(list[i].Capability, list[i].Resource); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// wantHost returns the permission to reach a host, which is not normalized.
func wantHost(h string) permission.Want {
	if port, ok := strings.CutPrefix(h, "localhost:"); ok {
		return permission.Want{Capability: permission.NetworkLocalhost, Resource: port}
	}
	return permission.Want{Capability: permission.NetworkHTTPS, Resource: h}
}

// network says what the tool reaches.
func (d *Definition) network() string {
	if len(d.Hosts) == 0 {
		return "Network: none"
	}
	text := "Network: " + strings.Join(d.Hosts, ", ")
	if len(d.Secrets) > 0 {
		text += "; secrets: " + strings.Join(d.Secrets, ", ")
	}
	return text
}

// lines describe a definition to the person who approves it.
func (d *Definition) lines() []string {
	command := "what the image starts"
	if len(d.Argv) > 0 {
		b, _ := json.Marshal(d.Argv) //nolint:errcheck // strings
		command = string(b)
	}
	digest := d.Digest
	if digest == "" {
		digest = "none: imported on this computer"
	}
	return []string{
		"Image: " + d.Image, "Id: " + d.ImageID, "Digest: " + digest, "Command: " + command, "Runs as user 65534 in a read-only container.", d.network(),
		fmt.Sprintf("Stored data: %d MiB.", d.StateBytes>>20),
		fmt.Sprintf("Limits: %d s, %d MiB memory, %d %% of a core, %d processes.", d.TimeoutSeconds, d.Limits.MemoryBytes>>20, d.Limits.CPUPercent, d.Limits.Pids),
	}
}

func (s *Service) ask(tx *storage.Tx, t *Tool) error {
	return s.o.Permission.AskTx(tx, permission.QuestionRequest{
		User: t.user, Subject: t.subject(), SubjectName: t.Name, Run: t.ID, RunKind: string(Kind), Ref: t.DefinitionHash, Tier: permission.SideEffecting,
		Question: permission.Question{
			Text:    fmt.Sprintf("Allow the tool %s to run in containers of the image %s?", t.Name, t.Definition.Image),
			Message: strings.Join(t.Definition.lines(), "\n"),
			Choices: []permission.Choice{
				{ID: choiceReject, Label: "Reject", Help: "The tool is revoked and can't run."},
				{ID: choiceApprove, Label: "Approve", Help: "The tool may run until you revoke it.", Approves: true},
			},
		},
	})
}

func (t *Tool) subject() permission.Subject {
	return permission.Subject{Kind: string(Kind), ID: t.ID.String(), DefinitionHash: t.hash}
}

// Subject implements permission.Source.
func (s *Service) Subject(ctx context.Context, _, id string) (info permission.SubjectInfo, err error) {
	key, err := uuid.Parse(id)
	if err != nil {
		return info, errNoTool()
	}
	var t *Tool
	if err := s.db.Read(ctx, func(tx *storage.Tx) error { t, err = load(tx, &key, ""); return err }); err != nil {
		return info, err
	}
	info = permission.SubjectInfo{Name: t.Name, State: t.Status, DefinitionHash: t.hash}
	if info.Definition, err = jcs.Marshal(t.Definition); err != nil {
		return info, err
	}
	wants, err := t.Definition.wants()
	if err == nil {
		info.Declared = wants[1:] // every tool may be called once it is approved
	}
	return info, err
}

// NameOf returns the name of a tool of the user, or "".
func (s *Service) NameOf(ctx context.Context, id string) string {
	info, err := s.Subject(ctx, string(Kind), id)
	if err != nil {
		return ""
	}
	return info.Name
}

// AnswerApproval implements permission.Answerer: it carries out an answer from Approvals.
func (s *Service) AnswerApproval(ctx context.Context, a permission.Answered) error {
	if a.Choice == choiceReject {
		_, err := s.Revoke(ctx, ToolParams{ToolID: a.Run})
		return err
	}
	_, err := s.Approve(ctx, ApproveParams{ToolID: a.Run, DefinitionHash: a.Ref})
	return err
}

// ApproveParams approve one definition of a tool.
type ApproveParams struct {
	ToolID         uuid.UUID `json:"toolId"`
	DefinitionHash string    `json:"definitionHash"` // the one that was shown
}

// Approve allows a tool to run. A definition that changed since it was shown is a Conflict. If another definition of
// the tool was approved before, a copy of what it has stored is kept for 7 days; see RestoreState.
func (s *Service) Approve(ctx context.Context, p ApproveParams) (*Tool, error) {
	id, _ := identity.From(ctx)
	if !id.MayApprove() {
		return nil, fault.Deniedf("Only a person can approve a tool.")
	}
	if err := s.snapshot(ctx, p); err != nil {
		return nil, err
	}
	var t *Tool
	err := s.db.Write(ctx, func(tx *storage.Tx) (err error) {
		if t, err = load(tx, &p.ToolID, ""); err != nil {
			return err
		}
		if t.Status != StatusPending {
			return fault.Conflictf("The tool %s doesn't wait for approval.", t.Name)
		}
		if !strings.EqualFold(p.DefinitionHash, t.DefinitionHash) {
			return fault.Conflictf("The definition of %s has changed since you opened it. Nothing was approved. Review it again.", t.Name)
		}
		doc, err := jcs.Marshal(t.Definition)
		if err != nil {
			return err
		}
		wants, err := t.Definition.wants()
		if err != nil {
			return err
		}
		if err := s.o.Permission.ApproveDefinition(tx, t.subject(), doc, wants, "user"); err != nil {
			return err
		}
		if err := s.o.Permission.GrantTx(tx, t.subject(), wants); err != nil {
			return err
		}
		if err := s.setStatus(tx, t, StatusActive); err != nil {
			return err
		}
		if err := s.o.Permission.CloseTx(tx, t.ID, t.DefinitionHash, choiceApprove, id.Token); err != nil {
			return err
		}
		return audit.Append(tx, audit.Entry{Action: "tool.approved", SubjectKind: string(Kind), SubjectID: t.ID.String(), Details: map[string]any{"name": t.Name, "definitionHash": t.DefinitionHash, "imageId": t.Definition.ImageID}})
	})
	return t, err
}

func (s *Service) setStatus(tx *storage.Tx, t *Tool, status string) error {
	t.Status = status
	_, err := tx.Exec(`UPDATE container_tools SET status = ?1, updated_at = ?2, approved_at = CASE WHEN ?1 = 'active' AND status = 'pending_approval' THEN ?2 ELSE approved_at END WHERE id = ?3`, status, tx.Now, t.ID)
	return err
}

// EnableParams switch a tool on or off.
type EnableParams struct {
	ToolID  uuid.UUID `json:"toolId"`
	Enabled bool      `json:"enabled"`
}

// SetEnabled switches an approved tool on or off. Switching it off ends its runs.
func (s *Service) SetEnabled(ctx context.Context, p EnableParams) (*Tool, error) {
	var t *Tool
	err := s.db.Write(ctx, func(tx *storage.Tx) (err error) {
		if t, err = load(tx, &p.ToolID, ""); err != nil {
			return err
		}
		to, action := StatusDisabled, "tool.disabled"
		if p.Enabled {
			to, action = StatusActive, "tool.enabled"
		}
		if t.Status != StatusActive && t.Status != StatusDisabled {
			return fault.Conflictf("The tool %s isn't approved. Approve it first.", t.Name)
		}
		if t.Status == to {
			return nil
		}
		if err := s.setStatus(tx, t, to); err != nil {
			return err
		}
		if err := s.o.Permission.SubjectChanged(tx, string(Kind), t.ID.String(), p.Enabled); err != nil {
			return err
		}
		if !p.Enabled {
			tx.AfterCommit(func() { s.endRuns(t.ID, "The tool was disabled.") })
		}
		return audit.Append(tx, audit.Entry{Action: action, SubjectKind: string(Kind), SubjectID: t.ID.String(), Details: map[string]any{"name": t.Name}})
	})
	return t, err
}

// ToolParams name a tool.
type ToolParams struct {
	ToolID uuid.UUID `json:"toolId"`
}

// RevokeResult is what was removed.
type RevokeResult struct {
	Grants int `json:"grants"`
}

// Revoke ends a tool for ever: its runs end, its permissions are removed and its name is free. The history of
// its runs and its image stay.
func (s *Service) Revoke(ctx context.Context, p ToolParams) (out RevokeResult, err error) {
	id, _ := identity.From(ctx)
	stored := false
	defer func() {
		if err == nil && stored {
			for _, name := range []string{volumeName(p.ToolID), snapshotName(p.ToolID)} {
				if rerr := s.engine.RemoveVolume(ctx, name); rerr != nil {
					s.log.Warn("remove the stored data of a revoked tool", "tool", p.ToolID, "err", rerr)
				}
			}
		}
	}()
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		t, err := load(tx, &p.ToolID, "")
		if err != nil {
			return err
		}
		if t.Status == StatusRevoked {
			return fault.Conflictf("The tool %s is already revoked.", t.Name)
		}
		if err := s.setStatus(tx, t, StatusRevoked); err != nil {
			return err
		}
		if out.Grants, err = s.o.Permission.RevokeSubject(tx, string(Kind), t.ID.String(), "the tool was revoked"); err != nil {
			return err
		}
		if err := s.o.Permission.SubjectChanged(tx, string(Kind), t.ID.String(), false); err != nil {
			return err
		}
		if err := s.o.Permission.CloseTx(tx, t.ID, t.DefinitionHash, choiceReject, id.Token); err != nil {
			return err
		}
		tx.AfterCommit(func() { s.endRuns(t.ID, "The tool was revoked.") })
		stored = t.Definition.StateBytes > 0
		return audit.Append(tx, audit.Entry{Action: "tool.revoked", SubjectKind: string(Kind), SubjectID: t.ID.String(), Details: map[string]any{"name": t.Name, "grants": out.Grants}})
	})
	return out, err
}

const (
	volumePrefix = "helix-tool-"
	maxState     = 16 << 30
)

func volumeName(tool uuid.UUID) string { return volumePrefix + tool.String() }

// ClearState removes what a tool stored between its runs. While it runs, that is a Conflict.
func (s *Service) ClearState(ctx context.Context, p ToolParams) (struct{}, error) {
	t, err := s.find(ctx, &p.ToolID, "")
	if err != nil {
		return struct{}{}, err
	}
	if err := s.engine.RemoveVolume(ctx, volumeName(t.ID)); err != nil {
		return struct{}{}, err
	}
	return struct{}{}, s.record(ctx, "container.state_cleared", t.ID.String(), map[string]any{"name": t.Name})
}
